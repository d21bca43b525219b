/* The text of generated kernels: what is folded, what goes, how lines are laid out.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../gen/c_text.h"
#include "tap.h"

/* Each text becomes the one after it. */
struct rewriting {
    const char *name, *before, *after;
};

static void expect(const struct rewriting *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct text text = {0};
        struct error error = {0};
        bool good = text_append(&text, cases[i].before, strlen(cases[i].before)) &&
                    c_text_tidy(&text, 0, &error) && strcmp(text.data, cases[i].after) == 0;
        ok(good, "%s", cases[i].name);
        if (!good)
            diag("got:\n%s", text.data);
        text_free(&text);
    }
}

#define EXPECT(cases) expect(cases, sizeof(cases) / sizeof *(cases))

static void test_folding(void) {
    static const struct rewriting cases[] = {
        {"sums with 0", "x = a + 0 - 0;\n", "x = a;\n"},
        {"0 in front", "x = f(0 + a, 0 + b[0 + c]);\n", "x = f(a, b[c]);\n"},
        {"products with 1", "x = a * 1 * b / 1 + 1 * c;\n", "x = a * b + c;\n"},
        {"products with 0", "x = a + 0 * p->s.t + q.r * 0;\n", "x = a;\n"},
        {"numbers", "x = (3 + 4) * 5 - 2;\n", "x = 33;\n"},
        {"chains", "x = a + 3 + 4 + b * 2 * 8;\n", "x = a + 7 + b * 16;\n"},
        {"no chain of differences", "x = a - 3 + 4;\n", "x = a - 3 + 4;\n"},
        {"a product binds more", "x = a + 3 * b + 4 + 5 % c;\n", "x = a + 3 * b + 4 + 5 % c;\n"},
        {"no negative numbers, no division by 0", "x = (2 - 3) + 1 / 0;\n", "x = 2 - 3 + 1 / 0;\n"},
        {"what an int does not hold", "x = 65536 * 65536 + 99999999999 * 1;\n",
         "x = 65536 * 65536 + 99999999999;\n"},
        {"floats, hexadecimal, suffixes, shifts",
         "x = a + 0.f * 1.f + 0x10 + 0x01 + 1u * 2 + (1 << 23);\n",
         "x = a + 0.f * 1.f + 0x10 + 0x01 + 1u * 2 + (1 << 23);\n"},
        {"long numbers", "x = from + 2 * INT64_C(40) + INT64_C(8);\n", "x = from + 88;\n"},
        {"numbers behind a cast", "x = (uint8_t)1 + 2 * 3;\n", "x = (uint8_t)1 + 6;\n"},
        {"strings and comments", "/* a + 0 */\nx = \"b + 0 * 1\";\n",
         "/* a + 0 */\nx = \"b + 0 * 1\";\n"},
    };
    EXPECT(cases);
}

static void test_parentheses(void) {
    static const struct rewriting cases[] = {
        {"around all", "x = ((a + b));\n", "x = a + b;\n"},
        {"around an argument", "f((a * b), (c), g[(i)]);\n", "f(a * b, c, g[i]);\n"},
        {"around a product in a sum", "x = a + (b * c) - (d);\n", "x = a + b * c - d;\n"},
        {"around the left of a sum", "x = (a + b) + c;\n", "x = a + b + c;\n"},
        {"not around the right", "x = a + (b + c) - (d - e);\n", "x = a + (b + c) - (d - e);\n"},
        {"not of casts", "x = (vi)y + (int)-z + (T *)(p + 1) + *(T *)q;\n",
         "x = (vi)y + (int)-z + (T *)(p + 1) + *(T *)q;\n"},
        {"not beside bits and shifts", "x = (a + b) << 2 | (c + d) & e;\n",
         "x = (a + b) << 2 | (c + d) & e;\n"},
        {"not of assignments", "    while ((c = next()))\n    f();\n",
         "while ((c = next()))\n    f();\n"},
        {"not of attributes", "typedef int w __attribute__((aligned(1)));\nw x;\n",
         "typedef int w __attribute__((aligned(1)));\nw x;\n"},
    };
    EXPECT(cases);
}

static void test_pruning(void) {
    static const struct rewriting cases[] = {
        {"functions and types that nothing names",
         "typedef int a;\ntypedef int b;\nstatic b f(b x)\n{\nreturn x;\n}\n\nstatic a g(a "
         "y)\n{\nreturn f(y);\n}\n"
         "\nstatic int h(int z)\n{\nreturn z;\n}\n\nint k(int z)\n{\nreturn h(z);\n}\n",
         "static int h(int z)\n{\n    return z;\n}\n\nint k(int z)\n{\n    return h(z);\n}\n"},
        {"an enum stays for one of its constants", "enum { A, B };\nenum { C, D };\nint x = B;\n",
         "enum { A, B };\nint x = B;\n"},
        {"macros", "#define A 1\n#define B 2\nint x = B;\n", "#define B 2\nint x = B;\n"},
        {"a local that is not used", "int f(int a)\n{\nconst int b = a;\n(void)b;\nreturn a;\n}\n",
         "int f(int a)\n{\n    return a;\n}\n"},
        {"one that is", "int f(int a)\n{\nint b = a;\n(void)b;\nreturn b;\n}\n",
         "int f(int a)\n{\n    int b = a;\n    return b;\n}\n"},
        {"parameters, and members of their name",
         "int f(int a, int b)\n{\n(void)a, (void)b;\nreturn p->a + b;\n}\n",
         "int f(int a, int b)\n{\n    (void)a;\n    return p->a + b;\n}\n"},
    };
    EXPECT(cases);
}

static void test_layout(void) {
    static const struct rewriting cases[] = {
        {"blocks, heads and elses",
         "void f(void)\n{\n\nfor (;;)\nfor (;;) {\nif (a)\nb();\nelse if "
         "(c)\nd();\nelse\ne();\n\n}\n"
         "if (g) {\nh();\n} else {\ni();\n}\n}\nint x;\n",
         "void f(void)\n{\n    for (;;)\n        for (;;) {\n            if (a)\n                "
         "b();\n"
         "            else if (c)\n                d();\n            else\n                e();\n  "
         "      }\n"
         "    if (g) {\n        h();\n    } else {\n        i();\n    }\n}\n\nint x;\n"},
        {"lists", "int x[] = {\n1,\n2, /* two */\n};\n",
         "int x[] = {\n    1,\n    2, /* two */\n};\n"},
        {"statements in several lines", "void f(void)\n{\ng(a,\nb +\nc);\n}\n",
         "void f(void)\n{\n    g(a, b + c);\n}\n"},
        {"long lines end at a comma",
         "int f(const struct some_rather_long_name *first, const struct some_rather_long_name "
         "*second, int the_third_of_all_of_them);\n",
         "int f(const struct some_rather_long_name *first, const struct some_rather_long_name "
         "*second,\n"
         "      int the_third_of_all_of_them);\n"},
        {"directives", "#define A \\\n    1\n  #include \"b.h\"\nint x = A;\n",
         "#define A \\\n    1\n#include \"b.h\"\nint x = A;\n"},
        {"parts of a string", "struct s x = {\n.a = \"a; \"\n\"b\",\n};\n",
         "struct s x = {\n    .a = \"a; \"\n        \"b\",\n};\n"},
    };
    EXPECT(cases);
}

int main(void) {
    test_folding();
    test_parentheses();
    test_pruning();
    test_layout();
    return done_testing();
}
