// Package statuspage tests the reaper's status page in headless Chromium. The browser is that of
// HOLDFAST_BROWSER, or one in the PATH; .ci/run installs one where it can. With
// HOLDFAST_PICTURES=folder the tests save pictures there.
//
// It is a module of its own, so that no other module depends on the browser's driver.
package statuspage
