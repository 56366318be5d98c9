// Package awss3 opens the bucket of a Lambda.
package awss3

import (
	"github.com/pxhost/pxhost/shared/boot"
	"github.com/pxhost/pxhost/shared/store/blob"
)

// New returns the bucket that PX_BUCKET names, in the environment's S3.
func New(env *boot.Env) *blob.Bucket { return blob.Open(boot.AWS(env, "S3"), env.Need("PX_BUCKET")) }
