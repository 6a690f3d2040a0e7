// What a document's site keeps for this tab: [origin, {name: value}], or null where that cannot be read.
() => {
  try {
    const found = {};
    for (let index = 0; index < sessionStorage.length; index++) {
      const name = sessionStorage.key(index);
      found[name] = sessionStorage.getItem(name);
    }
    return [location.origin, found];
  } catch {
    return null;
  }
}
