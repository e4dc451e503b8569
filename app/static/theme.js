// Light or dark: follows the system until the switch is used. Loaded before anything is painted.
{
  const KEPT = 'theme';
  const system = matchMedia('(prefers-color-scheme: light)');
  const follow = () => {
    const theme = localStorage.getItem(KEPT) || (system.matches ? 'light' : 'dark');
    document.documentElement.dataset.theme = theme;
    dispatchEvent(new Event('theme'));
  };
  system.addEventListener('change', follow);
  addEventListener('storage', follow); // another tab's switch
  document.addEventListener('click', (event) => {
    if (!(event.target instanceof Element) || !event.target.closest('#theme')) return;
    const theme = document.documentElement.dataset.theme === 'light' ? 'dark' : 'light';
    // A choice that equals the system's is not stored: the page follows the system again.
    if ((theme === 'light') === system.matches) localStorage.removeItem(KEPT);
    else localStorage.setItem(KEPT, theme);
    follow();
  });
  follow();
}
