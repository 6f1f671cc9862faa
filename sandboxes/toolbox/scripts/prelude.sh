# Begins every script. Words are ASCII: any other byte of a path comes as \0ooo. Answers begin with one line, of which
# `E os MESSAGE` is an error of the system, and the end of MESSAGE its name.
set -u
umask 022
# For our own tools only: `start` puts back what is the sandbox's.
their_locale=${LC_ALL+set:}${LC_ALL-}
their_path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export LC_ALL=C PATH
S=$1
shift
NL='
'
: >"$S/active"

# path WORD: sets p to the bytes that it stands for.
path() {
    p=$(printf '%b.' "$1")
    p=${p%.}
}

# os MESSAGE: an error of the system; of several lines the last.
os() { printf 'E os %s\n' "${1##*"$NL"}"; }

pause() { sleep 0.02 2>/dev/null || sleep 1; }

# look PATH: sets found to "mode size mtime id", through links; else says why not and fails.
look() { found=$(stat -L -c '%f %s %Y %i:%s:%Y:%Z' -- "$1" 2>&1) || { os "$found"; return 1; }; }

# regular PATH: look, for a file that can be read; else says why not and fails.
regular() {
    look "$1" || return 1
    if [ -d "$1" ]; then echo 'E folder'; return 1; fi
    if [ ! -f "$1" ]; then echo 'E special'; return 1; fi
    if [ ! -r "$1" ]; then os ': Permission denied'; return 1; fi
}

# begin KEY: claims a call. Fails when the call is known, after repeating its answer. KEY is - for calls without an id.
begin() {
    J=
    [ "$1" = - ] && return 0
    J="$S/journal/$1"
    mkdir "$J" 2>/dev/null && return 0
    tries=0
    until [ -e "$J/answer" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 500 ]; then echo 'E lost'; return 1; fi
        pause
    done
    cat "$J/answer"
    return 1
}

# finish ANSWER: gives the answer, and records it.
finish() {
    if [ -n "$J" ]; then printf '%s\n' "$1" >"$J/new" && mv "$J/new" "$J/answer"; fi
    printf '%s\n' "$1"
}

# known KEY: whether a call has an answer, which is given.
known() { [ "$1" != - ] && [ -e "$S/journal/$1/answer" ] && cat "$S/journal/$1/answer"; }
