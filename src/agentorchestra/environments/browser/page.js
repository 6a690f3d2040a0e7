// What actions ask of a page or of an element (scripts.py).
({
  // The element that scrolls around one, or the one that takes most of the view.
  scroller(element) {
    const scrolls = (e, style = getComputedStyle(e)) =>
      (e.scrollHeight > e.clientHeight + 2 && /auto|scroll|overlay/.test(style.overflowY)) ||
      (e.scrollWidth > e.clientWidth + 2 && /auto|scroll|overlay/.test(style.overflowX));
    const up = (e) => e.assignedSlot || e.parentElement || (e.getRootNode() instanceof ShadowRoot ? e.getRootNode().host : null);
    const root = document.scrollingElement || document.documentElement;
    for (let e = element; e && e !== document.body && e !== root; e = up(e)) if (scrolls(e)) return e;
    if (element || root.scrollHeight > root.clientHeight + 2 || root.scrollWidth > root.clientWidth + 2) return root;
    // The page itself does not scroll: in many applications a part in its middle does.
    for (let e = document.elementFromPoint(innerWidth / 2, innerHeight / 2); e && e !== root; e = up(e)) if (scrolls(e)) return e;
    return root;
  },

  scroll(element, given) {
    const [direction, pages] = given || element;
    const e = this.scroller(given ? element : null);
    const before = [e.scrollLeft, e.scrollTop];
    const across = e.clientWidth * pages, down = e.clientHeight * pages;
    const moves = {
      up: [0, -down], down: [0, down], left: [-across, 0], right: [across, 0],
      top: [0, -e.scrollHeight], bottom: [0, e.scrollHeight],
    };
    const [x, y] = moves[direction];
    e.scrollBy({ left: x, top: y, behavior: "instant" });
    return {
      moved: before[0] !== e.scrollLeft || before[1] !== e.scrollTop,
      above: Math.round(e.scrollTop), below: Math.max(0, Math.round(e.scrollHeight - e.clientHeight - e.scrollTop)),
      left: Math.round(e.scrollLeft), right: Math.max(0, Math.round(e.scrollWidth - e.clientWidth - e.scrollLeft)),
    };
  },

  // What a document's site keeps for this tab, and a mark of what it keeps for all tabs, which is another one after a
  // change: [origin, {name: value}, mark]; null where that cannot be read.
  stored() {
    try {
      const known = window[Symbol.for("agentorchestra.view")];
      const kept = JSON.stringify([{ ...localStorage }, document.cookie]);
      let hash = 0;
      for (let i = 0; i < kept.length; i++) hash = Math.imul(hash ^ kept.charCodeAt(i), 16777619);
      const mark = known?.written === undefined ? "" : `${known.token} ${known.written} ${kept.length} ${hash}`;
      return [location.origin, { ...sessionStorage }, mark];
    } catch {
      return self.origin === "null" ? [self.origin, {}, "can keep nothing"] : null;
    }
  },

  // Wait for what an action set off: until the document is loaded, then as long as something is about to happen, at
  // most so many ms each. `since` is how many ms ago the action began. Whether nothing is about to happen then.
  async calm([most, loads, since]) {
    const known = window[Symbol.for("agentorchestra.view")];
    const clock = known?.clock ?? (() => performance.now()), later = known?.later ?? setTimeout;
    const pause = (ms) => new Promise((done) => later(done, ms));
    const begun = clock() - since;
    if (document.readyState !== "complete")
      await Promise.race([new Promise((done) => window.addEventListener("load", done, { once: true })), pause(loads)]);
    const end = clock() + most;
    for (await pause(0); clock() < end; ) {
      const now = clock();
      let next = known?.timers && known.asked < begun ? Infinity : now + 10;
      for (const due of known?.timers?.values() ?? []) if (due >= now && due < next) next = due;
      for (const one of document.getAnimations()) {
        const over = one.effect?.getComputedTiming().endTime, at = one.currentTime;
        if (one.playState === "running" && typeof over === "number" && typeof at === "number" && over > at)
          next = Math.min(next, now + (over - at) / Math.abs(one.playbackRate || 1));
      }
      if (next >= end) return true;
      await pause(next - now + 1);
    }
    return false;
  },

  // Wait so; tell what the site keeps, and what the probe sees where it is asked for and nothing is about to happen.
  async quiet(wait, options) {
    const calm = await this.calm(wait);
    return [this.stored(), calm && options ? this.probe(options) : null];
  },

  // Do something by another function of these before, of an element if one comes first, and tell what it says too.
  async done(...asked) {
    const [name, given, ...wait] = asked.pop();
    let said = null;
    try { said = this[name](...asked, ...given); } catch { /* told as nothing: the page meddles with its scripts */ }
    return [said, ...await this.quiet(...wait)];
  },

  wordsOfFrame(most) { return document.body ? document.body.innerText.slice(0, most) : ""; },

  size() {
    const e = document.documentElement;
    return { width: Math.max(e.scrollWidth, innerWidth), height: Math.max(e.scrollHeight, innerHeight) };
  },

  toTheMiddle(e) { e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" }); },

  // What a field is, as far as typing into it matters.
  field(e) {
    const tag = e.tagName.toLowerCase();
    const listed = (name) => (e.getAttribute(name) || "").toLowerCase();
    return {
      tag, type: tag === "input" ? e.type : "", editable: e.isContentEditable, disabled: !!e.disabled, readonly: !!e.readOnly,
      suggests: listed("role") === "combobox" || ["list", "both", "inline"].includes(listed("aria-autocomplete")),
      takes: e.isContentEditable || tag === "textarea" || tag === "input",
    };
  },

  // Whether a field has what was put into it: fields for dates and the like drop what does not fit without a word.
  holds(e, text) {
    if (typeof e.value !== "string" || !e.isConnected) return "unknown";
    const plain = (one) => one.replace(/\r\n?/g, "\n");
    const value = plain(e.value), given = plain(e.tagName === "INPUT" ? text.replace(/[\r\n]/g, "") : text);
    if (value === given || value.endsWith(given) || value.toLowerCase() === given.trim().toLowerCase()) return "it";
    return value === "" ? "nothing" : "other";
  },

  // The caret to the end of a field that is typed into.
  caretToEnd(e) {
    e.focus();
    if (e.isContentEditable) {
      const range = document.createRange();
      range.selectNodeContents(e);
      range.collapse(false);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
    } else {
      try { e.setSelectionRange(e.value.length, e.value.length); } catch { /* numbers, dates: they have no caret */ }
    }
  },

  // Whether keys go to this element, or to this frame.
  hasKeys(e) {
    if (!document.hasFocus()) return false;
    let active = document.activeElement;
    while (active && active.shadowRoot && active.shadowRoot.activeElement) active = active.shadowRoot.activeElement;
    if (e) return active === e || e.contains(active);
    return !(active instanceof HTMLIFrameElement) && !(active && active.tagName === "FRAME");
  },

  // The options of a list that one chooses from.
  options(e) {
    if (e.tagName !== "SELECT") return null;
    const usable = !e.disabled && e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
    return { multiple: e.multiple, usable, options: [...e.options].slice(0, 5000).map((o) => ({ label: o.label.trim().slice(0, 300), value: o.value.slice(0, 300), disabled: o.disabled || (o.parentElement.tagName === "OPTGROUP" && o.parentElement.disabled) })) };
  },

  // Choose from a list by the very words of its options, and tell the page so as Playwright does. True, or where that is
  // not possible what `options` says.
  choose(e, wanted) {
    const listed = this.options(e);
    const places = wanted.map((words) => listed?.options.findIndex((o) => o.label === words.trim() && !o.disabled) ?? -1);
    if (places.includes(-1) || !listed.usable || (places.length > 1 && !e.multiple)) return listed;
    e.value = undefined;
    for (const at of places) e.options[at].selected = true;
    for (const name of ["input", "change"]) e.dispatchEvent(new Event(name, { bubbles: true, composed: true }));
    return true;
  },

  // The options of a list of a page's own making that can be seen: of the list that belongs to an element; where none
  // says that it does, those that were not there before.
  listed(e, before) {
    const own = [];
    const root = e.getRootNode();
    for (const name of ["aria-controls", "aria-owns"])
      for (const id of (e.getAttribute(name) || "").split(/\s+/)) if (id && root.getElementById(id)) own.push(root.getElementById(id));
    if (["listbox", "menu", "radiogroup", "tree"].includes(e.getAttribute("role"))) own.push(e);
    const roles = "[role=option],[role=menuitem],[role=menuitemradio],[role=menuitemcheckbox],[role=radio],[role=treeitem]";
    const seen = (o) => o.checkVisibility({ visibilityProperty: true }) && o.getClientRects().length > 0;
    const inside = (places) => places.flatMap((one) => [...one.querySelectorAll(roles)]).slice(0, 5000).filter(seen);
    if (own.length) return inside(own);
    return before ? inside([root]).filter((o) => !before.includes(o)) : [];
  },

  allListed(e) { return [...e.getRootNode().querySelectorAll("[role]")]; },

  words(list) {
    return list.map((o) => (o.getAttribute("aria-label") || o.innerText || o.textContent || "").trim().replace(/\s+/g, " ").slice(0, 200));
  },

  item(list, at) { return list[at]; },

  isFileField(e) {
    const field = e.tagName === "LABEL" ? e.control : e;
    return !!field && field.tagName === "INPUT" && field.type === "file";
  },

  // The largest picture that moves: what somebody who names none means.
  film(e) {
    if (e && e.tagName === "VIDEO") return e;
    const inside = e ? [...e.querySelectorAll("video")] : [...document.querySelectorAll("video")];
    const size = (v) => v.clientWidth * v.clientHeight;
    return inside.sort((a, b) => size(b) - size(a))[0] || null;
  },

  filmState(v) {
    const number = (n) => (Number.isFinite(n) ? Math.round(n * 100) / 100 : null);
    return {
      at: number(v.currentTime), length: number(v.duration), playing: !v.paused && !v.ended, ended: v.ended,
      width: v.videoWidth, height: v.videoHeight, muted: v.muted, source: v.currentSrc.slice(0, 300),
      error: v.error ? v.error.message || "code " + v.error.code : "", ready: v.readyState,
      tracks: [...v.textTracks].map((t) => [t.kind, t.language, t.label].filter(Boolean).join(" ")).slice(0, 20),
      said: [...v.textTracks].flatMap((t) => [...(t.activeCues || [])].map((c) => c.text || "")).join(" ").slice(0, 1000),
    };
  },

  async ready(v, seconds) {
    if (v.readyState >= 2 || v.error) return;
    v.preload = "auto";
    if (v.networkState === 0 || v.readyState === 0) v.load();
    await this.event(v, ["loadeddata", "error"], seconds);
  },

  event(v, names, seconds) {
    return new Promise((done) => {
      const end = () => { clearTimeout(timer); for (const n of names) v.removeEventListener(n, end); done(); };
      const timer = setTimeout(end, seconds * 1000);
      for (const n of names) v.addEventListener(n, end);
    });
  },

  async seek(v, [at, seconds]) {
    for (const t of v.textTracks) if (t.mode === "disabled") t.mode = "hidden";
    const sought = this.event(v, ["seeked", "error"], seconds);
    v.currentTime = at;
    await sought;
    // The frame is painted after the event.
    await new Promise((done) => (v.requestVideoFrameCallback ? v.requestVideoFrameCallback(done) : done(), setTimeout(done, 300)));
  },

  async play(v) {
    try { await v.play(); } catch {
      // Sound needs the hand of a person; without it films may start.
      v.muted = true;
      await v.play().catch(() => {});
    }
  },

  pause(v) { v.pause(); },
})
