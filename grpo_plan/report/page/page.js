// What the page does besides: colours, copying, printing; and the start of the what-if part.

const THEME = "grpo-plan-theme";

function startColours() {
  const box = document.getElementById("theme");
  let kept = null;
  try {
    kept = localStorage.getItem(THEME);
  } catch {
    // storage may be closed to a file on disk: the choice then lasts as long as the page
  }
  const choose = (value) => {
    if (value === "light" || value === "dark") document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
  };
  if (kept === "light" || kept === "dark") {
    box.value = kept;
    choose(kept);
  }
  box.addEventListener("change", () => {
    choose(box.value);
    try {
      localStorage.setItem(THEME, box.value);
    } catch {
      // as above
    }
  });
  document.getElementById("theme-box").hidden = false;
}

/** Copy buttons: the clipboard where the browser gives one, else the selection. */
function startCopying() {
  const said = document.getElementById("said");
  for (const button of document.querySelectorAll("button.copy")) {
    const label = button.firstChild.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      const done = (await copied(source.textContent)) || copiedBySelection(source);
      said.textContent = "";
      const words = done ? "Copied" : "Selected; copy it with Ctrl+C";
      said.textContent = `${words}.`;
      button.firstChild.textContent = words;
      setTimeout(() => {
        button.firstChild.textContent = label;
      }, 2000);
    });
  }
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function copiedBySelection(source) {
  const selection = window.getSelection();
  selection.removeAllRanges();
  const range = document.createRange();
  range.selectNodeContents(source);
  selection.addRange(range);
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  }
}

/** Paper shows everything: details open while the page prints. */
function startPrinting() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
    opened = [];
  });
}

startColours();
startCopying();
startPrinting();
const report = JSON.parse(document.getElementById("data").textContent);
window.grpoPlan = { recompute, report, whatIf: startWhatIf(report.what_if) };
