"""What was done, by call id, on the sandbox's disk: a mutating call whose id is known is not done again."""

import json
import os
import threading

from . import text

KEPT = 50000
"""Finished calls that are remembered at least; the older half goes when there are twice as many."""
_LOST = "Error: the sandbox's helper died during this call: whether it took effect cannot be known"


class Journal:
    """An append-only file of begun and finished calls, and their results in memory."""

    def __init__(self, folder):
        self._path = os.path.join(folder, "journal.jsonl")
        self._lock = threading.Condition()
        self._done = {}
        self._running = set()
        self._load()
        self._file = open(self._path, "a", encoding="utf-8", errors="surrogatepass", buffering=1)

    def _load(self):
        begun = {}
        try:
            with open(self._path, encoding="utf-8", errors="surrogatepass") as file:
                for line in file:
                    try:
                        record = json.loads(line)
                    except ValueError:
                        continue  # the last line of a helper that was killed while it wrote
                    begun.setdefault(record["key"], record)
                    if "result" in record:
                        self._done[record["key"]] = record["result"]
        except FileNotFoundError:
            return
        for key in begun:
            self._done.setdefault(key, {"error": "call_lost", "message": _LOST})

    def once(self, key, action):
        """The result of `action()` (a dict), which is called unless `key` is known. Without a key it is always called.

        A refusal is a result like any other. A second caller waits for the first.
        """
        if key is None:
            return action()
        known = self.begin(key)
        if known is None:
            try:
                known = {"ok": action()}
            except text.Refused as exc:
                known = {"error": exc.code, "message": exc.message}
            except BaseException:
                self.forget(key)
                raise
            self.finish(key, known)
        if "error" in known:
            raise text.Refused(known["error"], known["message"])
        return known["ok"]

    def close(self):
        """Let go of the file."""
        self._file.close()

    def known(self, key):
        """The recorded result of `key`, or None."""
        return self._done.get(key)

    def begin(self, key):
        """None when `key` is new, and now begun by the caller; else its recorded result, waiting for it if need be."""
        with self._lock:
            while key in self._running:
                self._lock.wait()
            if key in self._done:
                return self._done[key]
            self._running.add(key)
            self._append({"key": key})
        return None

    def finish(self, key, result):
        """Record the result of a begun call."""
        with self._lock:
            self._running.discard(key)
            self._done[key] = result
            self._append({"key": key, "result": result})
            if len(self._done) > 2 * KEPT:
                self._compact()
            self._lock.notify_all()

    def forget(self, key):
        """A begun call did not take place after all."""
        with self._lock:
            self._running.discard(key)
            self._append({"key": key, "result": {"error": "call_lost", "message": _LOST}})
            self._lock.notify_all()

    def _append(self, record):
        try:
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as exc:
            raise text.Refused("io_error", "Error: the sandbox's journal cannot be written: {}".format(exc.strerror)) from exc

    def _compact(self):
        for key in list(self._done)[:KEPT]:
            del self._done[key]
        fresh = self._path + ".new"
        with open(fresh, "w", encoding="utf-8", errors="surrogatepass") as file:
            for key, result in self._done.items():
                file.write(json.dumps({"key": key, "result": result}, ensure_ascii=False) + "\n")
        os.replace(fresh, self._path)
        self._file.close()
        self._file = open(self._path, "a", encoding="utf-8", errors="surrogatepass", buffering=1)
