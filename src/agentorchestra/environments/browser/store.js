// Put back what sites kept for this tab, before any script of theirs runs.
(stored) => {
  try {
    for (const [name, value] of Object.entries(stored[location.origin] || {})) {
      if (sessionStorage.getItem(name) === null) sessionStorage.setItem(name, value);
    }
  } catch {}
}
