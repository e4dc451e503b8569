// A ring around what is spoken of. It follows its element, lets every click through, and is out of sight when that is.
let follows = 0;

/** @param {HTMLIFrameElement} frame @param {string | null} selector nothing is ringed without one */
export function ring(frame, selector) {
  cancelAnimationFrame(follows);
  /** @type {Element | null} */
  let seen = null;
  const follow = () => {
    const page = frame.contentDocument;
    if (page?.body) place(page);
    if (selector) follows = requestAnimationFrame(follow);
  };
  const place = (/** @type {Document} */ page) => {
    let box = /** @type {HTMLElement | null} */ (page.querySelector('#tour-ring'));
    if (!box) {
      box = Object.assign(page.createElement('div'), { id: 'tour-ring' });
      page.body.append(box);
    }
    const node = selector && [...page.querySelectorAll(selector)].find((n) => n.getClientRects().length);
    box.hidden = !node;
    if (!node) return;
    if (seen !== node) {
      seen = node;
      node.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }
    const { innerWidth, innerHeight } = /** @type {Window} */ (frame.contentWindow);
    const r = node.getBoundingClientRect();
    const left = Math.max(2, r.left - 5);
    const top = Math.max(2, r.top - 5);
    const right = Math.min(innerWidth - 2, r.right + 5);
    const bottom = Math.min(innerHeight - 2, r.bottom + 5);
    const style = `left:${left}px;top:${top}px;width:${Math.max(0, right - left)}px;height:${Math.max(0, bottom - top)}px`;
    if (box.getAttribute('style') !== style) box.setAttribute('style', style);
  };
  follow();
}
