#!/usr/bin/env python3
"""bench_page.py PAGE... - how long a page of glofnd takes to its first view, in Chromium without a window.

Prints, in seconds from the beginning of the navigation to the file: the first contentful paint; the load event; the last change
that the page makes by itself, as pieces of data arrive; the end of the script's last long task. The largest of them is the first
view. Each page is opened three times, in new profiles; medians are printed. Chromium must be installed.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FLAGS = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking".split()
TIMES = """(() => {
    const of = (kind) => performance.getEntriesByType(kind);
    const paint = of("paint").find((e) => e.name === "first-contentful-paint");
    const load = of("navigation")[0];
    return JSON.stringify({paint: paint ? paint.startTime : 0, load: load ? load.loadEventEnd : 0, change: window.lastChange || 0,
        task: Math.max(0, ...(window.longTasks || []))});
})()"""
WATCH = """window.longTasks = [];
new MutationObserver(() => { window.lastChange = performance.now(); })
    .observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
new PerformanceObserver((l) => { for (const e of l.getEntries()) window.longTasks.push(e.startTime + e.duration); })
    .observe({type: "longtask", buffered: true});"""


class Browser:
    """Chromium over the pipe of its debugging protocol: messages of JSON, each with a zero byte at its end."""

    def __init__(self, program, profile):
        to_read, self.send_to = os.pipe()
        self.read_from, to_write = os.pipe()
        command = [program, *FLAGS, "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank"]
        script = 'exec 3<&%d 4>&%d; exec "$@"' % (to_read, to_write)
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *command], pass_fds=(to_read, to_write),
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest = 0, b""

    def message(self):
        while b"\0" not in self.rest:
            some = os.read(self.read_from, 1 << 20)
            if not some:
                sys.exit("bench_page: the browser has ended")
            self.rest += some
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, session=None, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.send_to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit("bench_page: %s: %s" % (method, answer["error"]["message"]))
                return answer["result"]

    def close(self):
        self.call("Browser.close")
        self.process.wait(30)


def open_page(program, page):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.call("Page.enable", session)
        browser.call("Page.addScriptToEvaluateOnNewDocument", session, source=WATCH)
        browser.call("Page.navigate", session, url="file://" + os.path.abspath(page))
        before, quiet = None, 0
        while quiet < 4:  # nothing new for two seconds
            time.sleep(0.5)
            times = json.loads(browser.call("Runtime.evaluate", session, expression=TIMES)["result"]["value"])
            quiet = quiet + 1 if times == before and times["load"] else 0
            before = times
        browser.close()
    return times


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    if not program:
        sys.exit("bench_page: Chromium is not installed")
    for page in sys.argv[1:]:
        runs = [open_page(program, page) for _ in range(3)]
        median = {k: statistics.median(r[k] for r in runs) / 1e3 for k in ("paint", "load", "change", "task")}
        view = statistics.median(max(r[k] for k in median) for r in runs) / 1e3
        print("%s: first view after %.2f s (first paint %.2f, load %.2f, last change %.2f, last long task %.2f)"
              % (page, view, median["paint"], median["load"], median["change"], median["task"]))


if __name__ == "__main__":
    main()
