// What a click in the middle of an element would hit instead of it, in a few words; null if it hits the element.
(element) => {
  element.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  const r = element.getBoundingClientRect();
  if (!r.width || !r.height) return "nothing: the element has no size";
  const left = Math.max(r.x, 0), upper = Math.max(r.y, 0);
  const x = (left + Math.min(r.right, innerWidth)) / 2, y = (upper + Math.min(r.bottom, innerHeight)) / 2;
  const root = element.getRootNode();
  const hit = root.elementFromPoint?.(x, y) ?? element.ownerDocument.elementFromPoint(x, y);
  if (!hit || element.contains(hit) || hit.contains(element)) return null;
  for (const label of element.labels ?? []) if (label.contains(hit)) return null;
  let host = hit;
  while (host) {
    if (host === element) return null;
    host = host.getRootNode().host;
  }
  const words = (hit.getAttribute("aria-label") ?? hit.innerText ?? "").slice(0, 200);
  const named = hit.id ? `#${hit.id}`.slice(0, 60) : "";
  return `${hit.tagName.toLowerCase()}${named} ${words}`;
}
