// Package statuspage tests the reaper's status page in headless Chromium, from HOLDFAST_BROWSER or
// the PATH, or installed with apt-get if that needs no password. With HOLDFAST_PICTURES=folder it
// saves pictures there.
//
// It is a module of its own, so that no other module depends on the browser's driver.
package statuspage
