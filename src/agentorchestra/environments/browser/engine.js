// Playwright's selector engine for references of our own: `TOKEN:NUMBER`, as probe.js gave them in this document.
({
  find(selector) {
    const known = window[Symbol.for("agentorchestra.view")];
    const [token, number] = selector.split(":");
    const element = known?.token === token ? known.elements.get(Number(number))?.deref() : undefined;
    return element?.isConnected ? [element] : [];
  },
  query(root, selector) {
    return this.find(selector)[0];
  },
  queryAll(root, selector) {
    return this.find(selector);
  },
})
