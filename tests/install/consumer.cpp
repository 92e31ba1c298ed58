// consumer.cpp - a user's program against the installed library, in C++17.
#include <glofnd.h>

#include <cstdio>
#include <string>

int main() {
    glofnd_options o;
    std::string why(200, '\0');
    if (glofnd_version_number() != GLOFND_VERSION_NUMBER) return 1;
    if (glofnd_options_init(&o, sizeof o) != GLOFND_OK || glofnd_options_check(&o, why.data(), why.size()) != GLOFND_OK) return 2;
    o.loss = GLOFND_LOSS_CLIP;
    glofnd_ctx *c = nullptr;
    if (glofnd_ctx_create(&o, &c, why.data(), why.size()) != GLOFND_OK) return 3;
    glofnd_ctx_free(c);
    return std::puts(glofnd_status_text(GLOFND_OK)) < 0;
}
