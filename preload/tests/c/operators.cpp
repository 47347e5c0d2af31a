// operator new and delete in all forms; failure throws, after the new handler was asked.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

static int asked;
static void handler() {
    if (++asked == 3)
        std::set_new_handler(nullptr);
}

static void check(bool holds, const char *what) {
    if (!holds) {
        std::puts(what);
        std::exit(1);
    }
}

struct alignas(256) Wide {
    char bytes[300];
};

static volatile std::size_t huge = PTRDIFF_MAX / 2;

template <typename Call> static bool throws(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int main() {
    std::vector<std::string> words;
    for (int n = 0; n < 10000; n++)
        words.push_back(std::to_string(n) + std::string(n % 100, 'x'));
    check(words[99].size() == 101, "strings");
    Wide *wide = new Wide, *many = new Wide[3], *quiet = new (std::nothrow) Wide;
    check(reinterpret_cast<std::uintptr_t>(wide) % 256 == 0, "aligned new");
    check(reinterpret_cast<std::uintptr_t>(many) % 256 == 0, "aligned new[]");
    check(reinterpret_cast<std::uintptr_t>(quiet) % 256 == 0, "aligned nothrow new");
    delete wide;
    delete[] many;
    delete quiet;
    ::operator delete(::operator new(100), std::size_t(100));
    ::operator delete(::operator new(100, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](100, std::nothrow), std::nothrow);
    ::operator delete(::operator new(0));
    std::align_val_t align{64};
    check(throws([] { ::operator delete(::operator new(huge)); }), "new throws");
    check(throws([] { ::operator delete[](::operator new[](huge)); }), "new[] throws");
    check(throws([=] { ::operator delete(::operator new(huge, align), align); }), "aligned new throws");
    check(throws([=] { ::operator delete[](::operator new[](huge, align), align); }), "aligned new[] throws");
    check(!::operator new(huge, std::nothrow) && !::operator new[](huge, std::nothrow), "nothrow gives null");
    check(!::operator new(huge, align, std::nothrow) && !::operator new[](huge, align, std::nothrow), "aligned nothrow gives null");
    std::set_new_handler(handler);
    check(throws([] { ::operator delete(::operator new(huge)); }) && asked == 3, "the handler is asked until there is none");
    asked = 0;
    std::set_new_handler(handler);
    check(!::operator new(huge, std::nothrow) && asked == 3, "nothrow asks the handler, too");
    std::puts("ok");
}
