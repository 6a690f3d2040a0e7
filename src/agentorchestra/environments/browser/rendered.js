// The page as it is rendered, as HTML without its scripts: with open shadow roots, without what is hidden.
(most) => {
  const skipped = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "SVG", "LINK", "META", "IFRAME", "OBJECT", "CANVAS"]);
  const empty = new Set(["BR", "HR", "IMG", "INPUT", "WBR", "COL", "SOURCE", "TRACK", "AREA", "EMBED"]);
  const kept = ["title", "alt", "colspan", "rowspan", "lang", "datetime", "start", "role", "class", "id", "itemprop"];
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
  // The words that style sheets put before or behind what is in an element; letters of icon fonts are none.
  const drawn = (node, side) => {
    const { content, display } = getComputedStyle(node, side);
    if (!/"|attr\(/.test(content) || display === "none" || /url\(|counters?\(|[\ue000-\uf8ff]/.test(content)) return "";
    return escaped([...content.matchAll(/"((?:[^"\\]|\\.)*)"|attr\(([\w-]+)\)/g)]
      .map(([, text, name]) => (name ? node.getAttribute(name) ?? "" : text.replace(/\\(.)/g, "$1"))).join(""));
  };
  const out = [];
  let size = 0, cut = false;
  const put = (text) => { size += text.length; if (size > most) cut = true; else out.push(text); };
  const children = (node) => {
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.tagName === "SLOT") { const given = node.assignedNodes(); return given.length ? given : node.childNodes; }
    return node.childNodes;
  };
  // Without recursion: pages nest without end.
  const pending = [[document.body || document.documentElement, false]];
  while (pending.length && !cut) {
    const [node, leaving] = pending.pop();
    if (leaving) { put(leaving); continue; }
    if (node.nodeType === 3) { put(escaped(node.data)); continue; }
    if (node.nodeType !== 1 || skipped.has(node.tagName.toUpperCase())) continue;
    if (node.checkVisibility && !node.checkVisibility({ visibilityProperty: true }) && getComputedStyle(node).display !== "contents") continue;
    const tag = node.tagName.toLowerCase().replace(/[^a-z0-9]/g, "-").replace(/^slot$/, "span");
    const attributes = kept.filter((name) => node.hasAttribute(name)).map((name) => ` ${name}="${escaped(node.getAttribute(name).slice(0, 300))}"`);
    if (tag === "a" && typeof node.href === "string") attributes.push(` href="${escaped(node.href.slice(0, 2000))}"`);
    if (tag === "img") attributes.push(` src="${escaped((node.currentSrc || node.src || "").slice(0, 500))}"`);
    put(`<${tag}${attributes.join("")}>${drawn(node, "::before")}`);
    if (empty.has(node.tagName)) continue;
    if (tag === "textarea" || tag === "select") {
      put(escaped(tag === "select" ? [...node.selectedOptions].map((o) => o.label).join(", ") : node.value.slice(0, 5000)) + `</${tag}>`);
      continue;
    }
    pending.push([null, `${drawn(node, "::after")}</${tag}>`]);
    const inside = children(node);
    for (let i = inside.length - 1; i >= 0; i--) pending.push([inside[i], false]);
  }
  const head = [...document.querySelectorAll("head > meta[name], head > meta[property]")].slice(0, 60)
    .map((m) => `<meta ${m.hasAttribute("name") ? "name" : "property"}="${escaped(m.getAttribute("name") || m.getAttribute("property"))}" content="${escaped((m.content || "").slice(0, 500))}">`);
  const lang = escaped((document.documentElement.lang || "").slice(0, 20));
  return { html: `<!doctype html><html lang="${lang}"><head><meta charset="utf-8"><title>${escaped(document.title.slice(0, 500))}</title>${head.join("")}</head>${out.join("")}</html>`, cut };
}
