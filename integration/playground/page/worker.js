// The program runs here, beside the page: timers of a page that is hidden are slowed down,
// those of a worker are not.
"use strict";
importScripts("wasm_exec.js");

const go = new Go();
WebAssembly.instantiateStreaming(fetch("playground.wasm"), go.importObject).then(({ instance }) => go.run(instance));
