# Makes of the list by words.awk a C file for words.c: functions that call each version of a word of an instruction set, and its
# meaning.
BEGIN {
    FS = "\t"
    print "#include \"" header ".h\"\n#include \"words_cases.h\"\n"
}

# The type of a parameter, without its name.
function type_of(parameter) {
    if (parameter ~ /\[/)
        return "vf *"
    sub(/[a-z0-9_]+$/, "", parameter)
    return parameter
}

# A letter that tells words.c what to make; see words_cases.h.
function kind_of(parameter, type) {
    if (parameter ~ /\[/)
        return "a"
    type = type_of(parameter)
    if (type ~ /\*/)
        return type ~ /^const/ ? "p" : "q"
    return type in kinds ? kinds[type] : "n"
}

BEGIN {
    kinds["vf "] = "v"; kinds["vi "] = "w"; kinds["vu "] = "w"; kinds["halves "] = "h"; kinds["vh "] = "x"; kinds["float "] = "f"
    kinds["int32_t "] = "i"; kinds["uint32_t "] = "u"; kinds["int64_t "] = "l"; kinds["uint64_t "] = "b"; kinds["void "] = "-"
}

function put_call(name, count, parameter, i) {
    print "static void call_" name "(union value *v)\n{"
    count = split(parameters[name], parameter, ", ")
    for (i = 1; i <= count; i++)
        print "    " type_of(parameter[i]) "p" i ";\n    memcpy(&p" i ", &v[" i "], sizeof p" i ");"
    printf "    %s%s(", (types[name] == "void " ? "" : types[name] "result = "), name
    for (i = 1; i <= count; i++)
        printf "%sp%d", (i > 1 ? ", " : ""), i
    print ");\n" (types[name] == "void " ? "" : "    memcpy(&v[0], &result, sizeof result);\n") "}\n"
}

# The word of which the function is a version, or "".
function word_of(file, name) {
    return index(name, file "_") == 1 ? substr(name, length(file) + 2) : ""
}

{
    types[$2] = $3
    parameters[$2] = $4
    word = word_of($1, $2)
    if (word == "")
        next
    if (!(word in types) || types[word] != $3) {
        print $2 " has no meaning of its type in templates/words/meaning.h" >"/dev/stderr"
        exit failed = 1
    }
    if (!(word in called))
        put_call(word)
    called[word] = 1
    put_call($2)
    letters = ""
    count = split($4, parameter, ", ")
    for (i = 1; i <= count; i++)
        letters = letters kind_of(parameter[i])
    rows = rows "    {\"" $2 "\", \"" word "\", '" ($3 in kinds ? kinds[$3] : "i") "', \"" letters "\", call_" word ", call_" $2 "},\n"
}

END {
    if (failed)
        exit 1
    print "const int lanes_of_isa = LANES;\nconst struct word words_of_isa[] = {\n" rows "    {NULL, NULL, 0, NULL, NULL, NULL},\n};"
}
