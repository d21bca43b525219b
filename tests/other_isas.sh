# Builds the command with another table of instruction sets; sourced.  No other file names an instruction set, so only the table
# is compiled again.

# copy_tree -- copies what the command needs to tree/, where it can be changed.
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

# link PROGRAM OBJECTS LIBRARY... -- links a program of the build, with the table before all libraries.  OBJECTS is one word:
# the objects of the build, and further files.
link() {
    program=$1
    objects=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    (cd "$builddir" && $CC $CFLAGS $LINKER -o "$scratch/cut/$program" $objects "$scratch/cut/isa.o" $(printf ".libs/%s.a " "$@") \
        $TUNE_LIBS $ONNX_LIBS -lpthread -lm -ldl)
}
