# Functions that write files.

# target PATH: sets t to where a write to PATH goes, through a link; makes its folder. Else says why not and fails.
target() {
    t=$1
    if [ -L "$t" ]; then
        t=$(readlink -f -- "$1" && echo .) || { os ': Too many levels of symbolic links'; return 1; }
        t=${t%"$NL".}
    fi
    folder=${t%/*}
    folder=${folder:-/}
    if [ ! -d "$folder" ]; then
        m=$(mkdir -p -- "$folder" 2>&1) || {
            case $m in *'File exists') m=': Not a directory' ;; esac
            os "$m"
            return 1
        }
    fi
    if [ -d "$t" ]; then os ': Is a directory'; return 1; fi
}

# vacant PATH: whether nothing is there; else says so.
vacant() {
    if [ -e "$1" ] || [ -L "$1" ]; then os ': File exists'; return 1; fi
}

# publish TEMPORARY MODE EXCLUSIVE: makes the finished file visible as t. MODE - keeps that of an old file.
publish() {
    mode=$2
    [ "$mode" != - ] || mode=$(stat -L -c %a -- "$t" 2>/dev/null) || mode=644
    if [ "$3" = 1 ]; then
        m=$(chmod "$mode" "$1" 2>&1 && ln -- "$1" "$t" 2>&1)
    else
        m=$(chmod "$mode" "$1" 2>&1 && mv -f -- "$1" "$t" 2>&1)
    fi || { os "$m"; rm -f -- "$1"; return 1; }
    rm -f -- "$1"
}
