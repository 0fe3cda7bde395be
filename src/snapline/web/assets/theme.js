// The theme that somebody chose on this page, set before anything is drawn. Without a choice the system's is used.
// A classic script, not a module: modules run only once the page is parsed, and the page would flash.
(function () {
  "use strict";
  try {
    const theme = localStorage.getItem("snapline-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is closed to this page: the system's theme it is.
  }
})();
