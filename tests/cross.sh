# Compiles the library and programs of tests for another processor or C library, as somebody would who has the sources, a
# compiler and the header of DLPack; sourced by tests that do so.

cross_flags="-ffp-contract=off -D_GNU_SOURCE -Iinclude -I$srcdir/include -I$srcdir -I$srcdir/tests -DKVMILL_SOURCEDIR=\"$srcdir\""

# find_dlpack -- copies the header of DLPack to include/.  It is all that other processors need of this machine.
find_dlpack() {
    mkdir -p include
    cp -r "$(echo '#include <dlpack/dlpack.h>' | $CC -E - | sed -n 's|^# [0-9]* "\(.*\)/dlpack/dlpack.h".*|\1|p' | head -n 1)/dlpack" include
}

library_sources="$srcdir/runtime/*/*.c $srcdir/defs/*.c $srcdir/ops/*.c"
# What programs of tests share.  The oracle of windows has integers that 32-bit processors lack.
test_sources=$(printf "$srcdir/tests/%s.c " tap program main common fence walk crew plans attention attention_judge attention_scenes random_attention \
    elements settings scatter_scene case_table onnx_problem)$(find "$srcdir/tests/oracle" -name '*.c' ! -name oracle_windows.c | sort)

# cross_compile COMMAND FOLDER SOURCE... -- compiles each source to an object in the folder.
cross_compile() {
    cross=$1 folder=$2
    shift 2
    mkdir -p "$folder"
    for source in "$@"; do
        # shellcheck disable=SC2086
        $cross $cross_flags -c "$source" -o "$folder/$(echo "${source#"$srcdir"/}" | tr / -).o" || return 1
    done
}

# parts_of PROGRAM -- prints what the program consists of, beside what programs share.
parts_of() {
    parts=$1
    case $1 in
    t_windows) parts="$parts windows_case windows_scatter oracle/oracle_windows" ;;
    t_convert) parts="$parts convert_known" ;;
    t_attend_kernels) parts="$parts kernel_problem" ;;
    t_flow_plans) parts="$parts flow_append flow_beside flow_choose flow_expect flow_run flow_step" ;;
    esac
    # shellcheck disable=SC2086
    printf "$srcdir/tests/%s.c " $parts
}

# cross_link COMMAND PROGRAM LINKED... -- compiles a program of tests, and links it.
cross_link() {
    cross=$1 program=$2
    shift 2
    # shellcheck disable=SC2046,SC2086
    $cross $cross_flags $(parts_of "$program") "$@" -lpthread -lm -o "$program"
}
