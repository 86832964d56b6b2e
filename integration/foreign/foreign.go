// Package foreign runs programs that use the ZooKeeper locks of other languages: Curator's, in
// Java, and kazoo's, in Python. It installs missing packages of Debian and Ubuntu, as package
// zkserver installs ZooKeeper and under the same conditions.
package foreign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-io/holdfast/integration/zkserver"
)

// Program is a program that is ready to run.
type Program struct {
	Version string // name and version of the library
	Command func(args ...string) *exec.Cmd
}

// EnvCurator names the variable with a folder of jars: those of a Curator in place of the installed one, and of
// all that it needs. For another kazoo, set PYTHONPATH.
const EnvCurator = "HOLDFAST_CURATOR"

// Curator compiles a Java class that uses Apache Curator, in dir. The folder must exist as long as
// the program is used. An error of the compiler begins with "javac: ".
func Curator(ctx context.Context, dir, class string, source []byte) (Program, error) {
	jars := "/usr/share/java"
	classes := []string{dir, jars + "/curator-recipes.jar", jars + "/curator-framework.jar"} // their manifests name what they need
	if folder := os.Getenv(EnvCurator); folder != "" {
		jars, classes = folder, []string{dir, filepath.Join(folder, "*")}
	}
	zookeeper, err := zkserver.Find(ctx)
	if err != nil {
		return Program{}, err
	}
	var javac string
	err = zkserver.Install(ctx, func() (missing []string, _ error) {
		if _, err := os.Stat(filepath.Join(jars, "curator-recipes.jar")); err != nil {
			missing = append(missing, "libcurator-recipes-java")
		}
		if javac, err = exec.LookPath(filepath.Join(filepath.Dir(zookeeper.Java), "javac")); err != nil {
			if javac, err = exec.LookPath("javac"); err != nil {
				missing = append(missing, "default-jdk-headless")
			}
		}
		return missing, nil
	})
	if err != nil {
		return Program{}, err
	}
	path := filepath.Join(dir, class+".java")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		return Program{}, err
	}
	classPath := strings.Join(append(classes, zookeeper.ClassPath), string(filepath.ListSeparator))
	if output, err := exec.CommandContext(ctx, javac, "-cp", classPath, "-d", dir, path).CombinedOutput(); err != nil {
		return Program{}, fmt.Errorf("javac: %w: %s", err, output)
	}
	version := "Curator"
	if found, _ := filepath.Glob(filepath.Join(jars, "curator-recipes-*.jar")); len(found) == 1 {
		version += " " + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "curator-recipes-"), ".jar")
	}
	return Program{version, func(args ...string) *exec.Cmd {
		java := []string{"-cp", classPath, "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", class}
		return exec.Command(zookeeper.Java, append(java, args...)...)
	}}, nil
}

// Kazoo writes a Python source that imports kazoo to dir, and returns its program.
func Kazoo(ctx context.Context, dir, name string, source []byte) (Program, error) {
	program, err := python(ctx, "import kazoo", "python3-kazoo")
	if err != nil {
		return Program{}, err
	}
	path, bare := filepath.Join(dir, name), program.Command
	program.Command = func(args ...string) *exec.Cmd { return bare(append([]string{path}, args...)...) }
	return program, os.WriteFile(path, source, 0o600)
}

// KazooTests returns a Python that has kazoo's tests and their imports.
func KazooTests(ctx context.Context) (Program, error) {
	return python(ctx, "import kazoo.tests.util, pytest, jks, mock, objgraph, OpenSSL", "python3-kazoo",
		"python3-pytest", "python3-pyjks", "python3-mock", "python3-objgraph", "python3-openssl")
}

// python returns a Python that has the imports: the one in the PATH, or else /usr/bin/python3. If
// neither has them, python installs the packages.
func python(ctx context.Context, imports string, packages ...string) (Program, error) {
	var python, version string
	err := zkserver.Install(ctx, func() ([]string, error) {
		for _, python = range []string{"python3", "/usr/bin/python3"} {
			output, err := exec.CommandContext(ctx, python, "-c", imports+"; print(kazoo.__version__)").Output()
			if err == nil {
				version = "kazoo " + strings.TrimSpace(string(output))
				return nil, nil
			}
		}
		return packages, context.Cause(ctx)
	})
	if err != nil {
		return Program{}, err
	}
	return Program{version, func(args ...string) *exec.Cmd { return exec.Command(python, args...) }}, nil
}
