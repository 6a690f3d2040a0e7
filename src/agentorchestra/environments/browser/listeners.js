// Runs in every frame before the page's own scripts: notes which elements listen to the pointer, and closed shadow
// roots, for probe.js, and what is still to come, for `quiet` of page.js; none of it can be asked for later. The page
// may break this for itself only.
(() => {
  const KEY = Symbol.for("agentorchestra.view");
  if (window[KEY]) return;
  const POINTER = new Set([
    "click", "dblclick", "auxclick", "contextmenu", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart",
    "touchend", "dragstart", "drop",
  ]);
  const apply = Reflect.apply;
  // A page that redefines what is used here is not to notice: its own calls do what they did.
  const quietly = (note) => {
    try {
      note();
    } catch {
      return;
    }
  };
  const known = {
    heard: new WeakMap(), // element -> map of event -> set of its listeners
    closed: new WeakMap(), // host -> its closed shadow root
    numbers: new WeakMap(), // element -> its number in this document
    elements: new Map(), // number -> weak reference to the element
    timers: new Map(), // id -> when it is due, in ms of `clock`
    asked: -Infinity, // when something was asked of a server, a worker or the browser last
    written: 0, // how often it wrote to what its site keeps and `stored` of page.js does not see
    clock: performance.now.bind(performance),
    later: setTimeout.bind(window), // the page's own timers are noted below, these are not
    last: 0,
    token: Math.random().toString(36).slice(2, 12),
  };
  Object.defineProperty(window, KEY, { value: known, enumerable: false });

  const targets = EventTarget.prototype;
  targets.addEventListener = new Proxy(targets.addEventListener, {
    apply(add, self, args) {
      quietly(() => {
        const type = args[0], listener = args[1];
        if (!listener || !POINTER.has(type) || !(self instanceof Element)) return;
        const events = known.heard.get(self) ?? new Map();
        events.set(type, (events.get(type) ?? new Set()).add(listener));
        known.heard.set(self, events);
      });
      return apply(add, self, args);
    },
  });
  targets.removeEventListener = new Proxy(targets.removeEventListener, {
    apply(remove, self, args) {
      quietly(() => {
        const events = known.heard.get(self), type = args[0];
        if (events?.get(type)?.delete(args[1]) && !events.get(type).size) events.delete(type);
      });
      return apply(remove, self, args);
    },
  });
  Element.prototype.attachShadow = new Proxy(Element.prototype.attachShadow, {
    apply(attach, self, args) {
      const root = apply(attach, self, args);
      quietly(() => root.mode === "closed" && known.closed.set(self, root));
      return root;
    },
  });

  const SOON = 1000, MOST_TIMERS = 500;
  const noted = (place, name, note) => {
    const real = place?.[name];
    if (typeof real !== "function") return;
    place[name] = new Proxy(real, {
      apply(call, self, args) {
        const value = apply(call, self, args);
        quietly(() => note(args, value));
        return value;
      },
    });
  };
  const starts = ([, delay], id) => {
    const ms = Math.max(Number(delay) || 0, 0), now = known.clock();
    if (ms > SOON) return;
    if (known.timers.size >= MOST_TIMERS)
      for (const [one, due] of known.timers) if (due < now) known.timers.delete(one);
    if (known.timers.size < MOST_TIMERS) known.timers.set(id, now + ms);
  };
  const asks = () => void (known.asked = known.clock());
  noted(window, "setTimeout", starts);
  noted(window, "setInterval", starts);
  for (const name of ["clearTimeout", "clearInterval"]) noted(window, name, ([id]) => known.timers.delete(id));
  noted(window, "fetch", asks);
  noted(window, "open", asks);
  for (const kind of [window.XMLHttpRequest, window.WebSocket]) noted(kind?.prototype, "send", asks);
  for (const kind of [window.Worker, window.MessagePort]) noted(kind?.prototype, "postMessage", asks);

  const writes = () => void known.written++;
  noted(window.IDBDatabase?.prototype, "transaction", ([, mode], transaction) => {
    if (!mode || mode === "readonly") return;
    writes();
    for (const name of ["complete", "abort"]) transaction.addEventListener(name, writes);
  });
  for (const name of ["open", "deleteDatabase"])
    noted(window.IDBFactory?.prototype, name, (_, request) => (writes(), request.addEventListener("success", writes)));
  for (const name of ["set", "delete"]) noted(window.CookieStore?.prototype, name, writes);
  const cookie = Object.getOwnPropertyDescriptor(Document.prototype, "cookie");
  noted(cookie, "set", writes); // of another path, which this document does not see
  if (cookie?.configurable) Object.defineProperty(Document.prototype, "cookie", cookie);

  const leads = (event) => quietly(() => {
    const target = event.composedPath().find((one) => one instanceof Element && one.matches("a[target], form[target]"));
    if (target) asks();
  });
  for (const name of ["click", "auxclick", "submit"]) window.addEventListener(name, leads, true);
  window.navigation?.addEventListener("navigate", (event) => quietly(() => event.destination.sameDocument || asks()));
})();
