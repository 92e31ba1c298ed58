// consumer.cpp - a user's program against the installed library, in C++17.
#include <glofnd.h>

#include <cstdio>
#include <string>

int main() {
    glofnd_options *o = nullptr;
    std::string why(200, '\0');
    if (glofnd_version_number() != GLOFND_VERSION_NUMBER) return 1;
    if (glofnd_options_create(&o) != GLOFND_OK || glofnd_options_check(o, why.data(), why.size()) != GLOFND_OK) return 2;
    if (glofnd_options_set(o, "loss", "clip", why.data(), why.size()) != GLOFND_OK) return 3;
    glofnd_ctx *c = nullptr;
    if (glofnd_ctx_create(o, &c, why.data(), why.size()) != GLOFND_OK) return 4;
    glofnd_ctx_free(c);
    glofnd_options_free(o);
    return std::puts(glofnd_status_text(GLOFND_OK)) < 0;
}
