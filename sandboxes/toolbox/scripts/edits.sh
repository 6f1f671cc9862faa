# WORD NAME: makes many edits in a folder, or none. NAME is a folder in it with a tar: of `edits`, and what is new as
# `new/INDEX`. A line of `edits` is INDEX WORD BEFORE AFTER DEPTHS FILLED, sorted by path: MODE:BLOB or - where nothing is;
# how deep above it other edits are; whether something is going to be below it. While things are moved, `plan` is there: whoever
# finds a folder with one puts everything back. Answers `R WORD` for each path that is refused, or `F WORD MESSAGE` when
# something failed, and at last `end`.
path "$1"
cd -- "$p" || exit 1
place="./$2" refused=0 word=. at_depth=0

# fail MESSAGE: puts everything back, and tells why.
fail() {
    settle "$place"
    printf 'F %s %s\nend\n' "$word" "${1##*"$NL"}"
    exit 0
}

refuse() {
    refused=$((refused + 1))
    [ "$refused" -gt 1000 ] || printf 'R %s\n' "$word"
}

there() { [ -e "$1" ] || [ -L "$1" ]; }

# settle FOLDER: puts everything back if it was being moved, and removes the folder.
settle() {
    if [ -e "$1/plan" ]; then
        put_back "$1" || return 1
        rm -f -- "$1/plan"
    fi
    rm -rf -- "$1"
}

put_back() {
    while read -r index told _ placed _ <&9; do
        path "$told"
        if [ "$placed" = 1 ] && ! there "$1/new/$index" && there "./$p"; then mv -- "./$p" "$1/new/$index" || return 1; fi
    done 9<"$1/plan"
    made=
    [ ! -e "$1/made" ] || while read -r told <&9; do made="$told $made"; done 9<"$1/made"
    for told in $made; do
        path "$told"
        rmdir -- "./$p" 2>/dev/null
    done
    while read -r index told _ _ _ <&9; do
        path "$told"
        p="./$p"
        there "$1/old/$index" || continue
        mkdir -p -- "${p%/*}" && mv -- "$1/old/$index" "$p" || return 1
    done 9<"$1/plan"
}

# state PATH: sets now to MODE:BLOB of a file or a link, to - where nothing is, else to `folder` or `other`.
state() {
    now=- mode=0
    if [ -L "$1" ]; then
        size=$(stat -c %s -- "$1")
        now=120000:$({ printf 'blob %s\0' "$size"; readlink -n -- "$1"; } | sha1sum)
    elif [ -f "$1" ]; then
        [ -r "$1" ] || fail 'Permission denied'
        size=$(stat -c '%f %s' -- "$1")
        mode=$((0x${size% *} & 4095)) size=${size#* } now=100644
        [ $((mode & 64)) -eq 0 ] || now=100755
        now=$now:$({ printf 'blob %s\0' "$size"; cat -- "$1"; } | sha1sum)
    elif [ -d "$1" ]; then
        now=folder
    elif [ -e "$1" ]; then
        now=other
    fi
    now=${now%% *}
}

# above PATH: sets blocked to how deep above it something is that is no folder, or to 0.
above() {
    blocked=0 at_depth=0 prefix=. rest=${1#./}
    while [ "$rest" != "${rest#*/}" ]; do
        at_depth=$((at_depth + 1)) prefix="$prefix/${rest%%/*}" rest=${rest#*/}
        if [ -L "$prefix" ] || { [ -e "$prefix" ] && [ ! -d "$prefix" ]; }; then
            blocked=$at_depth
            return
        fi
    done
}

# do_later ASIDE PLACED MODE: notes what is to be done: ASIDE 1 for a file, 2 for a folder, `leave` for one that goes if empty.
do_later() { printf '%s %s %s %s %s\n' "$index" "$word" "$1" "$2" "$3" >>"$place/todo" || fail 'No space left on device'; }

look_at_folder() {
    case $after,$before in
        040000:*) ;;
        -,- | -,040000:*) do_later leave 0 - ;;
        -,*) [ "$filled" = 1 ] || refuse ;;
        *,- | *,040000:*) do_later 2 1 - ;;
        *) refuse ;;
    esac
}

look() {
    above "$1"
    if [ "$blocked" -eq 0 ]; then
        state "$1"
    else
        case $depths in *,$blocked,*) now=- mode=0 ;; *) refuse; return ;; esac
    fi
    if [ "$now" = folder ]; then look_at_folder; return; fi
    [ "$now" != "$after" ] || return 0
    if [ "$now" != "$before" ]; then refuse; return; fi
    aside=1 placed=1
    [ "$now" != - ] || aside=0
    case $after in
        -) placed=0 ;;
        040000:*) placed=folder ;;
        100755:*) [ $((mode & 64)) -ne 0 ] || [ "$mode" -eq 0 ] || mode=$((mode | ((mode & 292) >> 2) | 64)) ;;
        100644:*) [ $((mode & 64)) -eq 0 ] || mode=$((mode & ~73)) ;;
        *) mode=0 ;;
    esac
    do_later "$aside" "$placed" "$(printf %o "$mode")"
}

# folder PATH WORD: makes a folder and those above it, and notes that it did.
folder() {
    [ "$1" != . ] || return 0
    if [ -d "./$1" ] && [ ! -L "./$1" ]; then return 0; fi
    case $1 in */*) folder "${1%/*}" "${2%/*}" ;; esac
    printf '%s\n' "$2" >>"$place/made" || fail 'No space left on device'
    m=$(mkdir -- "./$1" 2>&1) || fail "$m"
}

# each DO: calls DO for each thing to be done.
each() {
    while read -r index word aside placed mode <&8; do
        path "$word"
        "$1" "./$p"
    done 8<"$place/plan"
}

move_aside() {
    [ "$aside" = 1 ] || return 0
    m=$(mv -- "$1" "$place/old/$index" 2>&1) || fail "$m"
}

move_folder_aside() {
    [ "$aside" = 2 ] || return 0
    if [ -n "$(find "$1" ! -type d | head -c 1)" ]; then
        refuse
    else
        m=$(mv -- "$1" "$place/old/$index" 2>&1) || fail "$m"
    fi
}

put_in_place() {
    case $placed in
        0) return ;;
        folder) folder "$p" "$word"; return ;;
    esac
    case $p in */*) folder "${p%/*}" "${word%/*}" ;; esac
    if [ "$mode" != - ] && [ "$mode" != 0 ]; then chmod "$mode" "$place/new/$index"; fi
    ! there "$1" || fail 'File exists'
    m=$(mv -- "$place/new/$index" "$1" 2>&1) || fail "$m"
}

remove_empty() {
    case $aside in
        1) emptied=${1%/*} told=${word%/*} ;;
        leave) emptied=$1 told=$word ;;
        *) return ;;
    esac
    while [ "$emptied" != . ]; do
        case $kept in *" $told "*) return ;; esac
        rmdir -- "$emptied" 2>/dev/null || return
        emptied=${emptied%/*} told=${told%/*}
    done
}

for one in ./.fanfold-apply-*; do
    if [ "$one" = "$place" ] || [ ! -d "$one" ] || [ -L "$one" ]; then continue; fi
    if [ -e "$one/plan" ] && read -r pid 2>/dev/null <"$one/pid" && grep -q -F "${one#./}" "/proc/$pid/cmdline" 2>/dev/null; then
        fail 'Device or resource busy'
    fi
    settle "$one" || fail 'Input/output error'
done
m=$(mkdir "$place/old" 2>&1 && tar -x -m -o -f "$place/tar" -C "$place" 2>&1 && rm -f "$place/tar") || fail "$m"
echo $$ >"$place/pid" && : >"$place/todo" || fail 'No space left on device'
kept=' '
while read -r index word before after depths filled <&8; do
    case $after in 040000:*) kept="$kept$word " ;; esac
    path "$word"
    look "./$p"
done 8<"$place/edits"
if [ "$refused" -eq 0 ]; then
    mv "$place/todo" "$place/plan"
    each move_aside
    each move_folder_aside
    if [ "$refused" -eq 0 ]; then
        each put_in_place
        each remove_empty
        rm -f "$place/plan"
    fi
fi
settle "$place" || fail 'Input/output error'
echo end
