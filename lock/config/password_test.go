package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-io/holdfast/integration/iferr"
)

// TestCredentialsAreNotShown: printed, or marshaled as JSON or YAML, a configuration does not show the
// names of the files and variables of secrets: a user may have put the secret there.
func TestCredentialsAreNotShown(t *testing.T) {
	const text = "hunter2"
	auth, tls := Auth{Scheme: "digest", User: "u", PasswordFile: text, PasswordEnv: text}, TLS{KeyFile: text}
	sasl := SASL{Mechanism: DigestMD5, User: "u", PasswordFile: text, PasswordEnv: text, Keytab: text}
	for _, v := range []any{auth, &auth, tls, &tls, sasl, &sasl, ZooKeeper{Auth: &auth, SASL: &sasl, TLS: &tls}, []Auth{auth}} {
		shown := fmt.Sprintf("%v %+v %s", v, v, v)
		for _, marshal := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
			data, err := marshal(v)
			iferr.Error(t, err)
			shown += string(data)
		}
		if strings.Contains(shown, text) {
			t.Errorf("shown: %s", shown)
		}
	}
}

func TestPassword(t *testing.T) {
	folder := t.TempDir()
	file := func(name, data string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		iferr.Fatal(t, os.WriteFile(path, []byte(data), 0o600))
		iferr.Fatal(t, os.Chmod(path, mode)) // sets the mode despite the umask
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
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := Default()
			cfg.ZooKeeper.Auth = test.auth
			options, err := cfg.Options(context.Background())
			if test.rule != "" {
				if err == nil || !strings.Contains(err.Error(), test.rule) || !strings.Contains(err.Error(), "zookeeper.auth.password_") {
					t.Errorf("error is %v, want the key and %q", err, test.rule)
				}
				if strings.Contains(err.Error(), "HOLDFAST_TEST") || strings.Contains(err.Error(), "none") {
					t.Errorf("the error shows what may be the password: %v", err)
				}
				if options != nil {
					t.Error("there are options besides the error")
				}
				return
			}
			if password, _ := cfg.password("zookeeper.auth", test.auth.PasswordFile, test.auth.PasswordEnv); err != nil || password != test.password {
				t.Errorf("password = %q, %v, want %q", password, err, test.password)
			}
		})
	}
	iferr.Fatal(t, os.Chmod(folder, 0o700))
	if _, err := Default().password("zookeeper.auth", folder, ""); err == nil {
		t.Error("a folder gives a password")
	}
}
