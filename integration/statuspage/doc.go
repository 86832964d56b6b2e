// Package statuspage tests the reaper's status page in headless Chromium. HOLDFAST_BROWSER is the
// path of the browser. Without it, the tests use a browser in the PATH. .ci/run installs a browser
// if it can. With HOLDFAST_PICTURES=folder the tests save pictures there.
//
// It is a module of its own, so that no other module depends on the browser's driver.
package statuspage
