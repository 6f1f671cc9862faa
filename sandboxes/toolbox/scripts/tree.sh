# Functions that find and kill everything that a command started.

# family LEADER: adds to members every process of the leader's session, and their descendants. It forks nothing: it works
# when the sandbox is at its limit of processes.
family() {
    for one in /proc/[0-9]*; do
        read -r line 2>/dev/null <"$one/stat" || continue
        line=${line##*) }
        set -- "$1" $line
        pid=${one#/proc/}
        case " $members " in
            *" $pid "*) continue ;;
            *" $3 "*) ;;
            *) [ "$5" = "$1" ] || continue ;;
        esac
        members="$members $pid"
        fresh="$fresh $pid"
    done
}

# marked NAME: adds to members every process with the command's mark in its environment, wherever it moved itself.
marked() {
    for one in $(grep -l -F "FANFOLD_CALL=$1" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${one#/proc/}
        pid=${pid%/environ}
        case " $members " in *" $pid "*) continue ;; esac
        members="$members $pid"
        fresh="$fresh $pid"
    done
}

# kill_tree LEADER NAME: first stops everything, so that nothing can fork any more, then kills it.
kill_tree() {
    members=$1
    for how in family marked; do
        rounds=0
        fresh=$1
        while [ -n "$fresh" ] && [ "$rounds" -lt 50 ]; do
            fresh=
            if [ "$how" = family ]; then family "$1"; else marked "$2"; fi
            # shellcheck disable=SC2086
            [ -z "$fresh" ] || kill -STOP $fresh 2>/dev/null
            rounds=$((rounds + 1))
        done
        for pid in $members; do kill -KILL "$pid" 2>/dev/null; done
    done
    kill -KILL "-$1" 2>/dev/null
    return 0
}
