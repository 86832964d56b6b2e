package main

import (
	"os"
	"os/exec"
	"testing"
)

// browser returns the path of a Chromium.
func browser(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("HOLDFAST_BROWSER"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("THE PAGE IS NOT TESTED: no browser; install chromium (apt-get install chromium), or set HOLDFAST_BROWSER to the path of one")
	return ""
}
