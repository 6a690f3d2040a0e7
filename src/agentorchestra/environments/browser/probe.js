// What the accessibility snapshot of a frame does not say: what listens to the pointer, kinds of fields, which values
// are secret, what is covered, what scrolls; and, with `whole` or `drawn` set, a plain view of the page where a
// snapshot would take too long. Ends in bounded time: `stopped` says that not everything was looked at.
(options) => {
  const KEY = Symbol.for("agentorchestra.view");
  if (!window[KEY])
    Object.defineProperty(window, KEY, {
      value: {
        heard: new WeakMap(), closed: new WeakMap(), numbers: new WeakMap(), elements: new Map(), last: 0,
        token: Math.random().toString(36).slice(2, 12),
      },
    });
  const known = window[KEY];
  const end = performance.now() + options.ms;
  if (known.elements.size > 20000)
    for (const [one, element] of known.elements) if (!element.deref()?.isConnected) known.elements.delete(one);
  const out = {
    token: known.token, url: location.href.slice(0, 4000), title: document.title.slice(0, 500), elements: 0, weight: 0,
    depth: 0, stopped: false, found: [], order: [], start: null, secrets: [],
    scroll: { x: 0, y: 0, width: 0, height: 0, seen_width: innerWidth, seen_height: innerHeight },
  };
  const top = document.scrollingElement ?? document.documentElement;
  if (!top) return out;
  Object.assign(out.scroll, { x: scrollX, y: scrollY, width: top.scrollWidth, height: top.scrollHeight });
  out.elements = document.getElementsByTagName("*").length;

  const NATIVE = new Set(["A", "AREA", "BUTTON", "INPUT", "SELECT", "TEXTAREA", "SUMMARY", "OPTION", "LABEL"]);
  const NAMING = new Set(["A", "BUTTON", "TD", "TH", "TR", "LI", "LABEL", "OPTION", "SUMMARY", "H1", "H2", "H3", "H4"]);
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "BR"]);
  const FIELDS = new Set(["INPUT", "SELECT", "TEXTAREA"]);
  const ITEMS = new Set(["LI", "TR", "TD", "TH", "DT", "DD"]);
  const ABOUT = new Set(["scrolls", "floats", "frame", "state"]); // kinds that are no reason to use an element
  const TYPED = /^(text|textarea|search|url|tel|email)$/;
  const SECRET = /(^|\s)(cc-\S+|one-time-code|(current|new)-password)(\s|$)/i;
  const MOST_FOUND = options.found, MOST_NODES = options.nodes, MOST_CHARS = options.chars, MOST_CHILDREN = 300;
  let chars = 0;

  const words = (text, most = 200) => String(text ?? "").slice(0, most * 4).replace(/\s+/g, " ").trim().slice(0, most);
  const number = (element) => {
    let found = known.numbers.get(element);
    if (!found) {
      found = ++known.last;
      known.numbers.set(element, found);
      known.elements.set(found, new WeakRef(element));
    }
    return found;
  };
  const boxOf = (element) => {
    const r = element.getBoundingClientRect();
    return [Math.round(r.x), Math.round(r.y), Math.round(r.width), Math.round(r.height)];
  };
  const { seen_width, seen_height } = out.scroll;
  const inView = ([x, y, w, h]) => x < seen_width && y < seen_height && x + w > 0 && y + h > 0;
  const secret = (element) =>
    element.type === "password" || SECRET.test(element.getAttribute("autocomplete") ?? "");

  // What is under the middle of an element instead of it, said in a few words; "" for nothing.
  const coveredBy = (element, [x, y, w, h]) => {
    const left = Math.max(x, 0), upper = Math.max(y, 0);
    const px = (left + Math.min(x + w, innerWidth)) / 2, py = (upper + Math.min(y + h, innerHeight)) / 2;
    const root = element.getRootNode();
    const hit = root.elementFromPoint?.(px, py) ?? document.elementFromPoint(px, py);
    if (!hit || element.contains(hit) || hit.contains(element) || hit.shadowRoot?.contains(element)) return "";
    if (hit.getRootNode() !== root) return "";
    for (const label of element.labels ?? []) if (label.contains(hit)) return "";
    if (hit.tagName === "LABEL" && hit.control === element) return "";
    if (element.tagName === "AREA" || element.tagName === "OPTION") return "";
    const name = hit.getAttribute("aria-label") ?? hit.innerText ?? "";
    return words(`${hit.tagName.toLowerCase()} ${words(name, 60)}`, 80);
  };

  const pointerStart = (element) => {
    const parent = element.parentElement ?? element.getRootNode().host;
    return getComputedStyle(element).cursor === "pointer" && !(parent && getComputedStyle(parent).cursor === "pointer");
  };
  const listens = (element) => known.heard.get(element)?.size > 0
    || element.onclick || element.onmousedown || element.onpointerdown || element.onmouseup || element.ondblclick
    || element.hasAttribute("onclick");

  // The classes that an element has and not all of its tag beside it (cells: in their table), at most three: pages keep
  // states in them. Where all have as many of their own alone, they are names.
  const states = new Map();
  const stateOf = (element) => {
    if (!states.has(element)) {
      const tag = element.tagName, table = /^T[DH]$/.test(tag) && element.closest("table"), counts = new Map();
      const beside = table ? table.getElementsByTagName(tag) : element.parentElement?.children ?? [];
      const all = beside.length > 1000 ? [] : [...beside].filter((one) => one.tagName === tag);
      for (const one of all) for (const name of one.classList) counts.set(name, (counts.get(name) ?? 0) + 1);
      const own = all.map((one) => [...one.classList].filter((name) => counts.get(name) < all.length));
      const names = own.every((mine) => mine.length === own[0].length && mine.every((name) => counts.get(name) === 1));
      all.forEach((one, place) => states.set(one, names ? "" : own[place].slice(0, 3).join(" ")));
    }
    return states.get(element) ?? "";
  };
  // The words that style sheets draw in an element; null for a picture or a letter of an icon font.
  const drawnIn = (element) => {
    const drawn = ["::before", "::after"].map((side) => getComputedStyle(element, side).content).join("");
    return /[\ue000-\uf8ff]|url\(/.test(drawn) ? null : drawn.match(/"[^"]*"/g)?.join("").replaceAll('"', "");
  };

  // Elements whose hover shows what is hidden now, by the style sheets that the page may read.
  const hovered = new Set();
  const openers = (rules) => [...rules].flatMap((rule) => [...openers(rule.cssRules ?? []),
    ...(rule.selectorText ?? "").split(/,(?![^(]*\))/).map((one) => [one.match(/^(.*:hover[^\s>+~]*)\s*[\s>+~]/)?.[1], one])
      .filter(([trigger]) => trigger).map((both) => both.map((selector) => selector.replaceAll(":hover", "")))]);
  const hidden = (element, r = element.getBoundingClientRect()) => /\S/.test(element.textContent) && (!r.width || !r.height
    || r.right + scrollX <= 0 || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }));
  const findHovered = () => {
    const rules = [...document.styleSheets].flatMap((sheet) => { try { return [...sheet.cssRules]; } catch { return []; } });
    if (known.hovers?.[0] !== rules.length) known.hovers = [rules.length, openers(rules)];
    for (const [trigger, shown] of known.hovers[1]) try {
      if (performance.now() > end) return;
      for (const { parentElement: up } of [...document.querySelectorAll(shown)].slice(0, 100).filter((one) => hidden(one)))
        hovered.add(up.closest(trigger) ?? [...up.children].find((one) => one.matches(trigger)));
    } catch { continue; } // a selector that is none without its :hover
  };

  // Why an element is of interest besides what the snapshot says of it; "" if it is not.
  const kindOf = (element, shown) => {
    const tag = element.tagName;
    if (FIELDS.has(tag)) return "field";
    if (tag === "IFRAME" || tag === "FRAME") return "frame";
    if (tag === "CANVAS") return "canvas";
    if (tag === "LABEL") return listens(element) ? "native" : "";
    if (NATIVE.has(tag) && (element.hasAttribute("href") || (tag !== "A" && tag !== "AREA"))) return "native";
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return "field";
    if (element === document.documentElement || element === document.body) return "";
    if (listens(element)) return "listens";
    if (element.draggable && tag !== "IMG") return "drags";
    if (element.hasAttribute("tabindex") && element.tabIndex >= 0) return "focus";
    if (pointerStart(element)) return "pointer";
    if (hovered.has(element)) return "hovers";
    if (!shown || !element.classList.length) return "";
    const stated = (!element.firstElementChild || ITEMS.has(tag) || element.hasAttribute("role")) && stateOf(element);
    return stated || (!element.firstChild && drawnIn(element) === null) ? "state" : "";
  };
  const cuts = (element) => {
    const style = getComputedStyle(element), over = style.overflowY + style.overflowX; // without a layout
    if (style.display === "inline" || !/auto|scroll|hidden|clip/.test(over)) return "";
    if (element.scrollHeight <= element.clientHeight + 4 && element.scrollWidth <= element.clientWidth + 4) return "";
    return element === top || element === document.body ? "" : over;
  };
  const scrolls = (element) => element.clientHeight >= 10 && cuts(element) !== "";
  const common = ([x, y, w, h], [a, b, c, d]) => {
    const left = Math.max(x, a), upper = Math.max(y, b);
    return [left, upper, Math.min(x + w, a + c) - left, Math.min(y + h, b + d) - upper];
  };
  // How many things a list or table holds, as it says itself or as there are.
  const items = (element) => {
    const said = Number(element.getAttribute("aria-rowcount") ?? element.querySelector?.("[aria-setsize]")?.getAttribute("aria-setsize"));
    if (said > 1) return said;
    let list = element;
    while (list.childElementCount === 1) list = list.firstElementChild;
    if (list.tagName === "TABLE") return list.rows.length;
    return list.childElementCount;
  };
  const describe = (element, seen) => {
    const own = element.getAttribute("aria-label") || element.getAttribute("title") || element.getAttribute("alt");
    const label = element.labels?.[0]?.innerText;
    const drawn = element.querySelector?.("title")?.textContent;
    const inside = element.querySelector?.("[id], [class]");
    const classes = element.getAttribute("class");
    const hint = element.id || element.getAttribute("name") || classes;
    const use = element.querySelector?.("use")?.getAttribute("href");
    const img = element.querySelector?.("img")?.getAttribute("src")?.split(/[?#]/)[0].split("/").pop();
    const icon = use || img || inside?.id || inside?.getAttribute("class");
    const other = hint && hint !== classes ? classes || icon : "";
    const text = own || label || drawn || (seen ? element.innerText || drawnIn(element) : element.textContent);
    return [words(text, 80), words(hint || icon, 40), words(other, 40)];
  };

  const note = (element, kind, box, clip) => {
    const seen = element.checkVisibility?.({ opacityProperty: true, visibilityProperty: true }) ?? true;
    const shown = box[2] > 0 && box[3] > 0;
    const rendered = element.checkVisibility?.() ?? true; // not so what <details> hides, though it has a box
    if (!rendered && kind !== "field") return;
    if (!shown && kind !== "field") return;
    const within = inView(box);
    if (!within && !options.whole && kind !== "field") return;
    const one = { kind, box, tag: element.tagName.toLowerCase(), number: number(element), at: out.order.length / 6 };
    if (hovered.has(element)) one.hovers = true;
    if (!options.drawn && stateOf(element)) one.state = stateOf(element);
    if (!seen) one.unseen = true;
    if (clip && shown && !/file|checkbox|radio/.test(element.type ?? "")) {
      const [, , w, h] = common(box, clip);
      if (w <= 0 || h <= 0) one.clipped = true;
    }
    if (kind === "field") {
      Object.assign(one, {
        type: words(element.type, 20), required: !!element.required || element.getAttribute("aria-required") === "true",
        readonly: !!element.readOnly || element.getAttribute("aria-readonly") === "true",
        invalid: element.willValidate === true && !!element.value && !element.checkValidity(),
        multiple: !!element.multiple,
        list: element.list ? true : element.getAttribute("aria-autocomplete") ?? false,
        limit: element.maxLength > 0 ? element.maxLength : 0, accept: words(element.accept, 60),
      });
      if (FIELDS.has(element.tagName) && secret(element)) {
        one.secret = true;
        one.filled = !!element.value;
        if (element.value) out.secrets.push(String(element.value).slice(0, 1000));
      } else if (TYPED.test(element.type) && element.value?.length <= 2000) one.value = element.value;
    }
    if (kind === "frame") {
      const style = getComputedStyle(element);
      one.inner = [element.clientLeft + (parseFloat(style.paddingLeft) || 0),
        element.clientTop + (parseFloat(style.paddingTop) || 0)];
    }
    if (kind === "scrolls") {
      const page = element.clientHeight || 1;
      one.above = element.scrollTop / page;
      one.below = (element.scrollHeight - element.clientHeight - element.scrollTop) / page;
      one.items = items(element);
    }
    if (!ABOUT.has(kind) && within && shown) {
      const cover = seen ? coveredBy(element, box) : "";
      if (cover) one.covered = cover;
    }
    if (!ABOUT.has(kind)) [one.label, one.hint, one.classes] = describe(element, seen);
    if (kind === "state") one.state ||= words(element.getAttribute("class"), 40);
    if (element.tagName === "SUMMARY") one.open = !!element.parentElement?.open;
    if (rendered || element.type === "file") out.found.push(one);
  };

  // Something that its scrolling place does not cut off, though it lies in it: a fixed dialog, an open menu.
  const floats = (element, place) => {
    if (!place) return false;
    const position = getComputedStyle(element).position;
    if (position !== "fixed" && position !== "absolute") return false;
    const from = element.offsetParent;
    return !from || !(from === place || place.contains(from));
  };

  // Every element below a root, shadow trees (closed ones too, where listeners.js saw them made) in their places.
  const walk = (root, depth, naming) => {
    const stack = [[root, depth, naming, null, null, 0]];
    let count = 0;
    while (stack.length) {
      const [element, level, named, outer, around, behind] = stack.pop();
      if ((++count & 127) === 0 && performance.now() > end) return void (out.stopped = true);
      if (SKIPPED.has(element.tagName)) continue;
      out.depth = Math.max(out.depth, level);
      if (element.hasAttributes()) for (const name of ["aria-label", "title", "alt", "placeholder", "value", "href"])
        out.weight += element.getAttribute(name)?.length ?? 0;
      if (element.tagName === "INPUT" || element.tagName === "TEXTAREA") out.weight += element.value?.length ?? 0;
      const inner = named + (NAMING.has(element.tagName) || element.hasAttribute("role") ? 1 : 0);
      let place = outer, clip = around, at = 0;
      if (out.found.length < MOST_FOUND) {
        const box = boxOf(element), shown = box[2] > 0 && box[3] > 0 && (options.whole || inView(box));
        const kind = shown || FIELDS.has(element.tagName) || element.isContentEditable ? kindOf(element, shown) : "";
        if (shown || kind === "field") at = out.order.push(...box, level, behind);
        if (clip && /fixed|absolute/.test(getComputedStyle(element).position)) clip = floats(element, outer) ? null : clip;
        if (kind) note(element, kind, box, clip);
        if (shown && floats(element, outer)) note(element, "floats", box);
        const over = cuts(element);
        if (over) place = element;
        if (over && element.clientHeight >= 10) note(element, "scrolls", box);
        // What can be scrolled to is counted in its place; what nobody can scroll to is not there.
        if (over && !/auto|scroll/.test(over)) clip = clip ? common(clip, box) : box;
      } else out.stopped = true;
      const children = [];
      let text = 0;
      for (let child = element.firstChild; child; child = child.nextSibling) {
        if (child.nodeType === 1) {
          children.push([child, level + 1, inner, place, clip, text]);
          text = 0;
        }
        if (child.nodeType !== 3) continue;
        out.weight += child.length * (1 + inner);
        if (/\S/.test(child.data)) text = 1;
        if (at) out.order[at - 1] |= text * 2;
      }
      for (const inside of (element.shadowRoot ?? known.closed.get(element))?.children ?? [])
        children.push([inside, level + 1, inner, place, clip, 0]);
      for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]);
    }
  };

  // -- a plain view, where a snapshot would take too long --------------------------------------------------------------
  const ROLES = {
    A: "link", AREA: "link", BUTTON: "button", SELECT: "combobox", TEXTAREA: "textbox", OPTION: "option", IMG: "img",
    H1: "heading", H2: "heading", H3: "heading", H4: "heading", H5: "heading", H6: "heading", TABLE: "table", TR: "row",
    TD: "cell", TH: "columnheader", UL: "list", OL: "list", LI: "listitem", NAV: "navigation", MAIN: "main",
    FORM: "form", DIALOG: "dialog", IFRAME: "iframe", FRAME: "iframe", SUMMARY: "button", P: "paragraph",
    HEADER: "banner", FOOTER: "contentinfo", CANVAS: "canvas", DETAILS: "group",
  };
  const INPUTS = {
    checkbox: "checkbox", radio: "radio", button: "button", submit: "button", reset: "button", image: "button",
    range: "slider", number: "spinbutton", search: "searchbox", file: "button",
  };
  const LEAVES = new Set(["link", "button", "heading", "option", "tab", "menuitem", "img", "checkbox", "radio"]);
  const roleOf = (element) => {
    const given = element.getAttribute("role")?.trim().split(/\s+/)[0] ?? "";
    if (/^[a-z]{2,20}$/.test(given) && given !== "none" && given !== "presentation" && given !== "text") return given;
    if (element.tagName === "INPUT") return INPUTS[element.type] ?? "textbox";
    if (element.isContentEditable && !element.parentElement?.isContentEditable) return "textbox";
    return ROLES[element.tagName] ?? "";
  };
  const nameOf = (element, leaf) => {
    const labelled = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean).slice(0, 5)
      .map((id) => words(document.getElementById(id)?.textContent)).join(" ");
    const labels = [...(element.labels ?? [])].slice(0, 3).map((label) => words(label.textContent)).join(" ");
    const button = element.tagName === "INPUT" && /button|submit|reset/.test(element.type) ? element.value : "";
    return words(labelled || element.getAttribute("aria-label") || labels || element.getAttribute("alt") || button
      || (leaf ? element.textContent : "") || element.getAttribute("title"));
  };
  const draw = (root) => {
    // [element, where its nodes go, its level]; a place that cannot be seen counts in `above` or `below` of its parent.
    const start = { children: [], above: 0, below: 0 };
    out.start = start;
    const stack = [[root, start, 0, 0]];
    let count = 0, nodes = 0;
    while (stack.length) {
      const [thing, parent, level, depth] = stack.pop();
      if ((++count & 127) === 0 && performance.now() > end) return void (out.stopped = true);
      if (nodes >= MOST_NODES || chars >= MOST_CHARS) return void (out.stopped = true);
      if (thing.nodeType === 3) {
        const text = words(thing.data, 1000);
        if (!text) continue;
        chars += text.length;
        parent.children.push(text);
        continue;
      }
      if (SKIPPED.has(thing.tagName)) continue;
      if (parent.children.length >= MOST_CHILDREN) {
        parent.below = (parent.below ?? 0) + 1;
        continue;
      }
      const box = boxOf(thing);
      const empty = box[2] === 0 || box[3] === 0;
      if (!empty && !options.whole && !inView(box)) {
        if (box[1] + box[3] <= 0) parent.above = (parent.above ?? 0) + 1;
        else parent.below = (parent.below ?? 0) + 1;
        continue;
      }
      if (!thing.checkVisibility?.({ visibilityProperty: true })) {
        if (getComputedStyle(thing).display !== "contents") continue;
      }
      const role = roleOf(thing), kind = kindOf(thing, false), scrolling = scrolls(thing);
      let inside = parent, deeper = level;
      const leaf = LEAVES.has(role);
      if (role || kind || scrolling) {
        nodes++;
        const node = { role: role || "generic", name: nameOf(thing, leaf), box, number: number(thing), children: [] };
        chars += node.name.length + 30;
        if (thing === document.activeElement) node.active = true;
        if (thing.disabled) node.disabled = true;
        if (thing.checked || thing.getAttribute("aria-checked") === "true") node.checked = true;
        if (thing.selected || thing.getAttribute("aria-selected") === "true") node.selected = true;
        if (thing.getAttribute("aria-expanded") === "true") node.expanded = true;
        if (/^H[1-6]$/.test(thing.tagName)) node.level = Number(thing.tagName[1]);
        if (thing.tagName === "A") node.url = words(thing.getAttribute("href"), 300);
        if (FIELDS.has(thing.tagName)) {
          node.placeholder = words(thing.getAttribute("placeholder"), 100);
          if (thing.tagName === "SELECT")
            for (const option of [...thing.selectedOptions].slice(0, 5)) node.children.push(words(option.text, 100));
          else if (!secret(thing) && !/checkbox|radio|file|button|submit|reset|image/.test(thing.type))
            node.children.push(words(thing.value, 300));
        }
        if (level < 40) {
          parent.children.push(node);
          inside = node;
          deeper = level + 1;
        }
        if (kind || scrolling) if (out.found.length < MOST_FOUND) note(thing, scrolling && !kind ? "scrolls" : kind, box);
      }
      if (thing.tagName === "SELECT" || thing.tagName === "TEXTAREA" || (leaf && !thing.firstElementChild)) continue;
      if (depth > 2000) { out.stopped = true; continue; }
      const shadow = thing.shadowRoot ?? known.closed.get(thing);
      const slotted = thing.tagName === "SLOT" ? thing.assignedNodes() : [];
      const below = [];
      const from = slotted.length ? slotted : (shadow ?? thing).childNodes;
      // Text beside the element lists of a large place is skipped with them: only what is in view is looked into.
      for (let child = slotted.length ? null : from[0] ?? null; child; child = child.nextSibling) {
        if (child.nodeType === 1 || (child.nodeType === 3 && (empty || inView(box) || options.whole)))
          below.push(child);
        if ((below.length & 1023) === 1023 && performance.now() > end) { out.stopped = true; break; }
      }
      if (slotted.length) below.push(...[...slotted].slice(0, 10000));
      for (let i = below.length - 1; i >= 0; i--) stack.push([below[i], inside, deeper, depth + 1]);
    }
  };

  if (options.drawn) {
    // Also of fields that are not looked at: the page may repeat their values.
    for (const field of [...document.querySelectorAll("input[type=password], input[autocomplete]")].slice(0, 500))
      if (secret(field) && field.value) out.secrets.push(String(field.value).slice(0, 1000));
    draw(document.body ?? document.documentElement);
  }
  else if (out.elements <= options.elements) {
    findHovered();
    walk(document.documentElement, 0, 0);
  }
  else out.stopped = true;
  out.asks_password = [...document.querySelectorAll("input[type=password]")].slice(0, 20)
    .some((field) => field.checkVisibility?.({ visibilityProperty: true }));
  return out;
}
