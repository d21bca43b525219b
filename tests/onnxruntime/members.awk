# The members of the structs of ort_api.h, as tests/onnxruntime/abi.c wants them.
/^struct [a-z_]+ \{/ {whose = $2}
/^\}/ {whose = ""}
whose != "" && match($0, /\(\*[A-Za-z_0-9]+\)\(/) {
    name = substr($0, RSTART + 2, RLENGTH - 4)
    print "PLACE(" whose ", " name ")"
    if (whose == "ort_api" || whose == "ort_ep_api") print "TYPE(" whose ", " name ")"
}
