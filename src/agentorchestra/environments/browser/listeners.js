// Runs in every frame before the page's own scripts: notes which elements listen to the pointer, and closed shadow
// roots, for probe.js; neither can be asked for later. The page may break this for itself only.
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
})();
