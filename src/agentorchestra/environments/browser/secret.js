// Whether what is in a field is nobody's business: a password, a card, a one-time code.
(element) => element.type === "password"
  || /(^|\s)(cc-\S+|one-time-code|(current|new)-password)(\s|$)/i.test(element.getAttribute("autocomplete") ?? "")
