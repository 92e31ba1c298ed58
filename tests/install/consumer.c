/* consumer.c - a user's program against the installed library, in C. */
#include <glofnd.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    glofnd_options *o;
    char why[200];
    if (glofnd_version_number() != GLOFND_VERSION_NUMBER) return 1;
    if (glofnd_options_create(&o) != GLOFND_OK || glofnd_options_check(o, why, sizeof why) != GLOFND_OK) return 2;
    if (glofnd_options_set(o, "alpha", "2", why, sizeof why) != GLOFND_E_OPTION || !strstr(why, "alpha")) return 3;
    glofnd_options_free(o);
    return puts(glofnd_build_info()) < 0;
}
