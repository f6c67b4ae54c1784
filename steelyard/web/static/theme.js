// Runs before the first paint (a plain script, not a module), so that a light page never flashes dark.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("steelyard.theme"); } catch { /* storage is off: dark */ }
  document.documentElement.dataset.theme = chosen === "light" ? "light" : "dark";
})();
