// The page's own script: which study and tab are open, small helpers for the widgets. No framework, no network.
(() => {
  'use strict';
  const listeners = {};
  const Studio = (window.Studio = {
    study: null,
    tab: null,
    started: false, // becomes true when the picker has said for the first time which study is open

    on(event, fn) {
      (listeners[event] ||= new Set()).add(fn);
      return () => listeners[event].delete(fn);
    },
    emit(event, detail) {
      for (const fn of listeners[event] || []) fn(detail);
    },

    setStudy(id) {
      id = id || null;
      if (!Studio.started) {
        Studio.started = true;
        Studio.study = id;
        Studio.emit('started', id);
        return;
      }
      if (id === Studio.study) return;
      Studio.study = id;
      if (id) Studio.address({ study: id });
      Studio.emit('study', id);
    },
    // Asks the picker to read the list of studies again and to choose `id`.
    chooseStudy(id) {
      known = null; // the list changes by this very choice: the bar must not choose again while the picker answers
      Studio._wanted(`${id || ''}#${Date.now()}`);
    },
    bridge(props, trigger) {
      Studio._wanted = (text) => {
        props.value = text;
        trigger('submit');
      };
    },
    openTab(name) {
      document.querySelector(`#tab-${name}-button`)?.click();
    },
    address(changes) {
      const url = new URL(location.href);
      for (const [key, value] of Object.entries(changes)) {
        if (value == null) url.searchParams.delete(key);
        else url.searchParams.set(key, value);
      }
      history.replaceState(null, '', url);
    },

    // fetch of JSON. Throws an Error whose message is a sentence for the reader.
    async api(path, body, options = {}) {
      const init = { ...options };
      if (body !== undefined) {
        init.method ||= 'POST';
        init.headers = { 'Content-Type': 'application/json' };
        init.body = JSON.stringify(body);
      }
      let answer;
      try {
        answer = await fetch(path, init);
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new Error('The studio does not answer. Is it still running?');
      }
      if (answer.status === 401) location.href = '/sign-in';
      const data = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(data.error || data.detail || `The studio answered ${answer.status}.`);
      return data;
    },

    async mount(root, module, props) {
      try {
        const { mount } = await import(module);
        await mount(root, Studio, props);
        root.dataset.ready = 'yes';
      } catch (error) {
        console.error(error);
        Studio.toast(error.message, 'bad');
      }
    },

    // Elements without markup strings: el('b', {class: 'x', onclick: fn}, 'text', child)
    el(tag, attributes = {}, ...children) {
      const svg = ['svg', 'path', 'line', 'text', 'g', 'rect', 'circle', 'polyline', 'polygon'].includes(tag);
      const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
      for (const [key, value] of Object.entries(attributes)) {
        if (value == null || value === false) continue;
        if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
        else if (key === 'value' || key === 'checked' || key === 'disabled') node[key] = value;
        else node.setAttribute(key, value === true ? '' : value);
      }
      node.append(...children.flat().filter((c) => c != null && c !== false));
      return node;
    },

    toast(text, kind = 'note') {
      let rack = document.querySelector('#toasts');
      if (!rack) document.body.append((rack = Studio.el('div', { id: 'toasts', role: 'status', 'aria-live': 'polite' })));
      const note = Studio.el('div', { class: `toast ${kind}` }, text);
      rack.append(note);
      setTimeout(() => note.remove(), kind === 'bad' ? 9000 : 4500);
    },

    // Asks before something that cannot be undone. Resolves to true or false.
    confirm(text, yes = 'Yes', no = 'Cancel') {
      return new Promise((resolve) => {
        const box = Studio.el('dialog', { class: 'ask' }, Studio.el('p', {}, text));
        const done = (answer) => { box.close(); box.remove(); resolve(answer); };
        box.append(Studio.el('menu', {},
          Studio.el('button', { class: 'plain', onclick: () => done(false) }, no),
          Studio.el('button', { class: 'main', onclick: () => done(true) }, yes)));
        box.addEventListener('cancel', () => done(false));
        document.body.append(box);
        box.showModal();
      });
    },

    shown(element) {
      return element.isConnected && element.offsetParent !== null && !document.hidden;
    },
    seconds(s) {
      if (s == null || !isFinite(s)) return '–';
      if (s < 1) return `${Math.round(s * 1000)} ms`;
      if (s < 90) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
      if (s < 5400) return `${Math.round(s / 60)} min`;
      return `${(s / 3600).toFixed(1)} h`;
    },
    bytes(n) {
      if (n == null) return '–';
      const unit = ['B', 'KB', 'MB', 'GB', 'TB'];
      let i = 0;
      while (n >= 1000 && i < 4) { n /= 1000; i += 1; }
      return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${unit[i]}`;
    },
  });

  // The bar says what is at work. A study that appears by itself (the demo, an import elsewhere) joins the picker; the
  // first one is opened with its training in view.
  let known = null;
  async function watch() {
    try {
      if (Studio.started && !document.hidden) {
        const { studies, job, beside, arrived } = await Studio.api('/api/status');
        const list = studies.join(' ');
        // Who brings in a study chooses it when it is there: a second choice beside that one could come in last.
        if (!Studio.importing && known !== null && list !== known) {
          const first = known === '' && studies.length && !Studio.byHand; // who imports here reads the report first
          Studio.chooseStudy(first ? studies[0] : Studio.study);
          if (first) Studio.openTab('training');
        }
        if (!Studio.importing) known = list;
        const sign = document.querySelector('#at-work');
        if (sign) {
          sign.hidden = !job;
          const also = beside ? ` · ${beside.message}` : ''; // what goes on beside a training
          const text = job && (job.status === 'running' ? `${Math.round(100 * job.progress)} % · ${job.message}${also}` : 'waiting to start');
          if (job && sign.textContent !== text) sign.textContent = text;
          sign.onclick = () => Studio.openTab('training');
        }
        Studio.emit('status', { studies, job, beside, arrived });
      }
    } catch (error) {
      console.debug(error.message);
    }
    setTimeout(watch, 2000);
  }
  watch();

  // The address follows clicks on tabs only: Gradio's own select events also fire while the page loads.
  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('#rooms > .tab-wrapper button[role=tab], #rooms button[role=tab][id^=tab-]');
    if (!button || !/^tab-\w+-button$/.test(button.id)) return;
    Studio.tab = button.id.replace(/^tab-|-button$/g, '');
    if (event.isTrusted || Studio.tab) Studio.address({ tab: Studio.tab });
    setTimeout(() => Studio.emit('tab', Studio.tab), 0);
  });
})();
