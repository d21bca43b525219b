# A tree whose table of instruction sets is another, and what the build has linked with that table; sourced.  No other
# file names an instruction set, so what is compiled anew is the table.

# copy_tree -- what the command needs, in tree/, to be changed.
copy_tree() {
    rm -rf tree cut
    mkdir -p tree/defs tree/tests cut/tests
    cp -r "$srcdir/templates" "$srcdir/include" "$srcdir/configs" tree
    cp -r "$srcdir/tests/tables" tree/tests
    chmod -R u+w tree
    cp "$srcdir/defs/isa.h" "$srcdir/defs/isa.c" tree/defs
}

compile_isas() {
    # shellcheck disable=SC2086
    $CC $CFLAGS -I"$srcdir" -c tree/defs/isa.c -o cut/isa.o
}

# link PROGRAM OBJECTS LIBRARY... -- of the build, with the table before all libraries.  OBJECTS are one word: those of
# the build, and files.
link() {
    program=$1
    objects=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    (cd "$builddir" && $CC $CFLAGS $LINKER -o "$scratch/cut/$program" $objects "$scratch/cut/isa.o" $(printf ".libs/%s.a " "$@") \
        $TUNE_LIBS $ONNX_LIBS -lpthread -lm -ldl)
}
