"use strict";
// Before anything is painted: the theme that was chosen last time, if one was.
(() => {
  const KEY = "eigentime-report-theme";
  const root = document.documentElement;
  root.classList.add("scripted");
  // A page that is opened as a file may have no storage.
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  window.chooseTheme = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      if (theme === "auto") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, theme);
    } catch {
      // It is chosen for this time only.
    }
  };
})();
