package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestSecretIsNotShown(t *testing.T) {
	const text = "hunter2"
	s := NewSecret(text)
	if s.Reveal() != text {
		t.Errorf("Reveal = %q", s.Reveal())
	}
	if got := (Secret{}).Reveal(); got != "" {
		t.Errorf("the zero Secret is %q", got)
	}
	exported := struct{ S Secret }{s}
	unexported := struct{ s Secret }{s}
	shown := []string{s.String(), fmt.Sprint(s, &s, exported, unexported)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
		for _, v := range []any{s, &s, exported, &exported, unexported, &unexported, []Secret{s}, map[string]Secret{"s": s}} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
	}
	for _, v := range []any{s, &s, exported, map[string]any{"s": s}} {
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
			data, err := marshal(v)
			if err != nil || !strings.Contains(string(data), redacted) {
				t.Errorf("%T is marshalled as %s, %v", v, data, err)
			}
			shown = append(shown, string(data))
		}
	}
	for _, out := range shown {
		if strings.Contains(out, text) || strings.Contains(out, fmt.Sprintf("%x", text)) || strings.Contains(out, fmt.Sprintf("%X", text)) {
			t.Errorf("shown: %s", out)
		}
	}
	if got := fmt.Sprintf("%v %s %q %#v", s, s, s, s); got != strings.Repeat(" [redacted]", 4)[1:] {
		t.Errorf("printed as %s", got)
	}
}

func TestPassword(t *testing.T) {
	folder := t.TempDir()
	file := func(name, data string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // sets the mode despite the umask
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("HOLDFAST_TEST_PASSWORD", "from env\n")
	t.Setenv("HOLDFAST_TEST_EMPTY", "")
	for _, test := range []struct {
		name     string
		auth     *Auth
		password string
		rule     string
	}{
		{"file", &Auth{PasswordFile: file("a", "pass word", 0o600)}, "pass word", ""},
		{"line break", &Auth{PasswordFile: file("b", "pass\n", 0o400)}, "pass", ""},
		{"Windows line break", &Auth{PasswordFile: file("c", "pass\r\n", 0o600)}, "pass", ""},
		{"one line break only", &Auth{PasswordFile: file("d", " pass\n\n", 0o600)}, " pass\n", ""},
		{"group", &Auth{PasswordFile: file("e", "pass", 0o440)}, "pass", ""},
		{"variable", &Auth{PasswordEnv: "HOLDFAST_TEST_PASSWORD"}, "from env\n", ""},
		{"readable by all", &Auth{PasswordFile: file("f", "pass", 0o644)}, "", "mode 0644"},
		{"writable by all", &Auth{PasswordFile: file("g", "pass", 0o602)}, "", "mode 0602"},
		{"empty file", &Auth{PasswordFile: file("h", "\n", 0o600)}, "", "is empty"},
		{"long file", &Auth{PasswordFile: file("i", strings.Repeat("x", maxSecret+1), 0o600)}, "", "longer than 65536 bytes"},
		{"no file", &Auth{PasswordFile: filepath.Join(folder, "none")}, "", "no such file"},
		{"variable not set", &Auth{PasswordEnv: "HOLDFAST_TEST_NONE"}, "", "no environment variable of the name that stands there"},
		{"variable empty", &Auth{PasswordEnv: "HOLDFAST_TEST_EMPTY"}, "", "no environment variable of the name that stands there, or it is empty"},
		{"none", nil, "", "not configured"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := test.auth.Password()
			if test.rule != "" {
				if err == nil || !strings.Contains(err.Error(), test.rule) || !strings.Contains(err.Error(), "zookeeper.auth") {
					t.Errorf("error is %v, want the key and %q", err, test.rule)
				}
				if strings.Contains(err.Error(), "HOLDFAST_TEST") || strings.Contains(err.Error(), "none") {
					t.Errorf("the error shows what may be the password: %v", err)
				}
				if s != (Secret{}) {
					t.Error("there is a password besides the error")
				}
				return
			}
			if err != nil || s.Reveal() != test.password {
				t.Errorf("Password = %q, %v, want %q", s.Reveal(), err, test.password)
			}
		})
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Auth{PasswordFile: folder}).Password(); err == nil {
		t.Error("a folder gives a password")
	}
}
