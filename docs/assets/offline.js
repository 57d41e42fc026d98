// Browsers start no workers for pages that are opened from a disk. There, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((loaded) => frame.addEventListener("load", loaded, { once: true }));
      frame.srcdoc = `<script>
        self.postMessage = (data) => frameElement.answer(data);
        self.importScripts = (...all) => all.forEach((each) => document.write('<script src="' + each + '"><\\/script>'));
      <\/script><script src="${address}"><\/script>`;
      frame.answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      this.frame = frame;
      document.documentElement.append(frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() { this.frame.remove(); }
  };
}
