package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/foreign"
	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Programs that contain the snippets in other languages, and the declarations that the snippets
// need.
const (
	javaScene = `
import java.util.concurrent.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class Snippets {
    static CuratorFramework client;
    static String path = "/scene/curator";

    static void ship() {}

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(100, 10));
        client.start();
        %s
        client.close();
        Runtime.getRuntime().halt(0); // whatever its threads wait for
    }
}
`
	pythonScene = `
import sys
from kazoo.client import KazooClient

def ship(): pass

client = KazooClient(hosts=sys.argv[1])
client.start()
%s
client.stop()
`
)

// TestForeignSnippets: the Java and Python code in the documents runs against a server, with
// Curator and kazoo. The test is skipped if the libraries are not available.
func TestForeignSnippets(t *testing.T) {
	t.Parallel()
	for _, in := range []struct {
		language, scene, name string
		program               func(ctx context.Context, dir, name string, source []byte) (foreign.Program, error)
	}{
		{"java", javaScene, "Snippets", foreign.Curator},
		{"python", pythonScene, "snippets.py", foreign.Kazoo},
	} {
		t.Run(in.language, func(t *testing.T) {
			var body strings.Builder
			for _, s := range fenced(t, in.language) {
				if in.language == "java" {
					s.text = "{\n" + s.text + "}\n"
				}
				body.WriteString(s.text)
			}
			dir := t.TempDir()
			program, err := in.program(t.Context(), dir, in.name, fmt.Appendf(nil, in.scene, body.String()))
			if err != nil && strings.HasPrefix(err.Error(), "javac: ") {
				t.Fatal(err)
			}
			if err != nil {
				zkserver.NotRun(t, "needs %s: %v", in.language, err)
			}
			server := zkserver.AddrForTest(t, zkserver.Options{})
			if out, err := program.Command(server).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
