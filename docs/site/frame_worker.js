/* Browsers start no worker from a file. Pages opened from a folder run theirs, the search, in a
 * hidden frame instead: the theme looks for the name IFrameWorker. */
"use strict";
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const loaded = new Promise((done) => this.frame.addEventListener("load", done, { once: true }));
      document.body.append(this.frame);
      this.started = loaded.then(() => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => {
          const event = new MessageEvent("message", { data: structuredClone(data) });
          this.dispatchEvent(event);
          this.onmessage?.(event);
        };
        const run = (src) =>
          new Promise((done, failed) => {
            const script = inside.document.createElement("script");
            Object.assign(script, { src, onload: done, onerror: failed });
            inside.document.body.append(script);
          });
        inside.importScripts = async (...urls) => {
          for (const each of urls) await run(each);
        };
        return run(url);
      });
    }

    postMessage(data) {
      this.started.then(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        this.frame.contentWindow.dispatchEvent(event);
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
