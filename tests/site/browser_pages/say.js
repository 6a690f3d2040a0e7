// Tells the server what happened in the page: tests look there.
function say(name, more) {
  fetch("/said", { method: "POST", keepalive: true, body: JSON.stringify({ name, ...more }) });
}
