// Package awss3 makes the S3 client of a Lambda.
package awss3

import (
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pxhost/pxhost/shared/boot"
)

// New returns a client of the environment's S3. At an endpoint of its own, as
// the local host has, the bucket stands in the path: its name is no host there.
func New(env *boot.Env) *s3.Client {
	config := boot.AWS(env, "S3")
	return s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = config.BaseEndpoint != nil })
}
