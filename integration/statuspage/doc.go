// Package statuspage tests the reaper's status page in a browser: headless Chromium, as
// HOLDFAST_BROWSER or the PATH names it, or installed with apt-get where that asks for no
// password. With HOLDFAST_PICTURES=folder it leaves pictures of what it has seen there.
//
// It is a module of its own, so that no other module depends on the browser's driver.
package statuspage
