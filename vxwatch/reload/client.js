// Put into pages by vx: reloads them after a good cycle and shows what failed in a bad one.
(() => {
  "use strict";
  const script = document.currentScript;
  const mark = Symbol.for("vx live reload");
  try {
    if (window !== window.top && window.top[mark]) return; // reloaded with the page around it
  } catch {} // of another origin
  if (!script || window[mark]) return;
  window[mark] = true;

  const home = new URL(".", script.src).pathname;
  const ask = "";
  const STYLE = {
    all: "all:initial;position:fixed;inset:0;z-index:2147483647",
    sheet:
      "position:absolute;inset:0;box-sizing:border-box;overflow:auto;padding:2rem;" +
      "background:rgba(20,20,24,.94);color:#eee;font:14px/1.5 ui-monospace,monospace",
    title: "margin:1.5rem 0 .5rem;font-size:16px;color:#ff7a7a",
    output: "margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:inherit",
    button: "float:right;font:inherit;cursor:pointer",
  };
  let mine = new URL(script.src).searchParams.get("v");
  let latest = ask;
  let closed = "";
  let shown = null;

  function heard(text) {
    latest = text;
    const news = JSON.parse(text);
    show(news.failed);
    if (news.version === mine) return;
    mine = news.version;
    // Vite has updated its page by then; it knows nothing of other servers.
    if (!news.servers && document.querySelector('script[src*="/@vite/client"]')) return;
    if (remembered(mine)) return;
    location.reload();
  }

  // A page that comes back as old as it was, from a service worker say, is not reloaded again.
  function remembered(version) {
    try {
      if (sessionStorage.getItem(mark.description) === version) return true;
      sessionStorage.setItem(mark.description, version);
    } catch {}
    return false;
  }

  function connect() {
    const source = new EventSource(home + "events");
    for (const kind of ["hello", "reload", "failed", "mended"]) {
      source.addEventListener(kind, (event) => {
        if (tabs) tabs.postMessage(event.data);
        heard(event.data);
      });
    }
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }

  // A browser has six connections for an origin: one tab listens for all.
  const tabs = navigator.locks && window.BroadcastChannel ? new BroadcastChannel(home) : null;
  addEventListener("keydown", (event) => event.key === "Escape" && shown && close(), true);
  if (tabs) {
    tabs.onmessage = ({ data }) => {
      if (data !== ask) heard(data);
      else if (latest !== ask) tabs.postMessage(latest);
    };
    tabs.postMessage(ask);
    const forever = () => new Promise(() => connect());
    navigator.locks.request(`${mark.description} ${home}`, forever).catch(connect);
  } else {
    connect();
  }

  function show(failed) {
    const text = JSON.stringify(failed);
    if (shown) shown.remove();
    shown = null;
    if (!failed.length) closed = "";
    if (!failed.length || text === closed) return;
    shown = box("vx-live-reload", STYLE.all);
    const sheet = box("section", STYLE.sheet);
    sheet.setAttribute("role", "alert");
    const button = box("button", STYLE.button, "close");
    button.onclick = close;
    sheet.append(button);
    for (const one of failed) {
      sheet.append(box("h1", STYLE.title, `${one.task} ${one.how}`));
      sheet.append(box("pre", STYLE.output, one.output));
    }
    shown.attachShadow({ mode: "open" }).append(sheet);
    document.documentElement.append(shown);
  }

  function close() {
    closed = JSON.stringify(JSON.parse(latest).failed);
    shown.remove();
    shown = null;
  }

  function box(name, style, text) {
    const element = document.createElement(name);
    element.style.cssText = style; // which a policy on styles leaves alone
    if (text !== undefined) element.textContent = text;
    return element;
  }
})();
