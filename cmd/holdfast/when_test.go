package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseWhen(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 26, 9, 30, 0, 0, time.UTC)
	for s, want := range map[string]string{
		"03:12": "2026-11-26T03:12:00Z", "09:30": "2026-11-26T09:30:00Z", "09:31": "2026-11-25T09:31:00Z", "23:59:58.5": "2026-11-25T23:59:58.5Z",
		"2026-11-20": "2026-11-20T00:00:00Z", "2026-11-20T03:12": "2026-11-20T03:12:00Z", "2026-11-20 03:12:05.25": "2026-11-20T03:12:05.25Z",
		"2026-11-20T03:12:05+02:00": "2026-11-20T01:12:05Z", "2h": "2026-11-26T07:30:00Z", "ago 2h": "2026-11-26T07:30:00Z", "90s ago": "2026-11-26T09:28:30Z",
	} {
		got, err := parseWhen(s, now, now)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %v, %v, want %s", s, got, err, want)
		}
	}
	if got, err := parseWhen("03:12", now.In(berlin), now.In(berlin)); err != nil || got.UTC().Format(time.RFC3339) != "2026-11-26T02:12:00Z" {
		t.Errorf("in another zone: %v, %v", got, err)
	}
	for _, s := range []string{"", "3", "25:00", "-2h", "yesterday", "2026-13-01"} {
		if got, err := parseWhen(s, now, now); err == nil || !strings.Contains(err.Error(), "must be a time of day") {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestParseZxid(t *testing.T) {
	if n, ok, err := parseZxid("0x100000042"); n != 0x100000042 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if _, ok, err := parseZxid("03:12"); ok || err != nil {
		t.Error(ok, err)
	}
	for _, s := range []string{"0x", "0xzz", "0x0", "0xffffffffffffffff"} {
		if _, _, err := parseZxid(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}
