package jobs

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/cmd/skein/cli"
)

// absFiles names what a table of files uploads from a directory.
func absFiles(table any, dir string) {
	files, _ := table.(map[string]any) // or spec says what is wrong with it
	for name, v := range files {
		if path, ok := v.(string); ok && path != "" && !isHash(path) && !filepath.IsAbs(path) {
			files[name] = filepath.Join(dir, path)
		}
	}
}

func isHash(s string) bool {
	_, err := cluster.ParseHash(s)
	return err == nil
}

// takeFiles takes what is to be uploaded out of the table of files; its hashes come with
// the upload.
func (t *jobText) takeFiles() {
	files, _ := t.values[keyFiles].(map[string]any) // as above
	t.files = make(map[string]string)
	for name, v := range files {
		if path, ok := v.(string); ok && !isHash(path) {
			t.files[name] = path
			files[name] = cluster.Hash{1}.String()
		}
	}
}

// eachFile calls f with the files of a job that are to be uploaded, for their hashes.
func eachFile(files map[string]string, spec *job.Spec, f func(flag, path string, limit int64) (cluster.Hash, error)) (err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if spec.Files[name], err = f("--files "+name, files[name], job.MaxModuleBytes); err != nil {
			return err
		}
	}
	return nil
}

func uploadFiles(a *cli.App, ctx context.Context, c *api.Client, files map[string]string, spec *job.Spec) error {
	return eachFile(files, spec, func(flag, path string, limit int64) (cluster.Hash, error) {
		return upload(a, ctx, c, flag, path, limit)
	})
}
