// Copy buttons.

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.body.appendChild(make("textarea", { value: text, className: "hidden" }));
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const done = await copy(byId(button.dataset.copy).textContent);
    button.textContent = done ? "Copied" : "Copy it by hand";
    announce(done ? "Copied" : "Copying is not allowed here");
    button.focus();
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  });
}
