package template

import "strconv"

func (b *builder) cluster(id string, r *reader) {
	c := Cluster{LogicalID: id, Name: b.physical(id, r.path)}
	c.ARN = b.arn("AWS::ECS::Cluster", c.Name)
	r.inert("ClusterName", "ClusterSettings", "Tags")
	r.done()
	b.out.Clusters = append(b.out.Clusters, c)
}

// taskDefinition reads what is the same on every machine of a task. The machine itself
// (its size, its file system, its rights in the kernel) is this machine here.
func (b *builder) taskDefinition(id string, r *reader) {
	t := Task{LogicalID: id, Family: b.physical(id, r.path), Environment: map[string]string{}}
	t.ARN = b.arn("AWS::ECS::TaskDefinition", t.Family)
	r.inert("Family", "Cpu", "Memory", "RuntimePlatform", "EphemeralStorage", "Volumes", "Tags")
	r.only("NetworkMode", "awsvpc")
	for i, c := range r.list("RequiresCompatibilities") {
		if c != "FARGATE" {
			b.add(pointer(pointer(r.path, "RequiresCompatibilities"), strconv.Itoa(i)), `only "FARGATE" is supported by px local`)
		}
	}
	t.Role, t.ExecutionRole = r.text("TaskRoleArn", ""), r.text("ExecutionRoleArn", "")
	at := pointer(r.path, "ContainerDefinitions")
	containers := r.list("ContainerDefinitions")
	r.done()
	if len(containers) != 1 {
		b.add(at, "only one container a task is supported by px local")
		return
	}
	c := b.reader(containers[0], pointer(at, "0"))
	t.Container, t.Image = c.text("Name", ""), c.text("Image", "")
	c.only("Essential", "true")
	c.inert("User", "ReadonlyRootFilesystem", "LinuxParameters", "MountPoints", "LogConfiguration", "StopTimeout", "Ulimits")
	for i, v := range c.list("Environment") {
		e := b.reader(v, pointer(pointer(c.path, "Environment"), strconv.Itoa(i)))
		t.Environment[e.text("Name", "")] = e.text("Value", "")
		e.done()
	}
	c.done()
	b.out.Tasks = append(b.out.Tasks, t)
}

// role reads what a role may do. Who may take it, and the policies that AWS manages,
// are of services that are not here.
func (b *builder) role(id string, r *reader) {
	o := Role{LogicalID: id, Name: b.physical(id, r.path)}
	o.ARN = b.arn("AWS::IAM::Role", o.Name)
	r.inert("RoleName", "Description", "AssumeRolePolicyDocument", "ManagedPolicyArns", "Tags")
	for i, v := range r.list("Policies") {
		p := b.reader(v, pointer(pointer(r.path, "Policies"), strconv.Itoa(i)))
		p.inert("PolicyName")
		if doc, ok := p.take("PolicyDocument"); ok {
			o.Policy = append(o.Policy, b.document(doc, pointer(p.path, "PolicyDocument"))...)
		}
		p.done()
	}
	r.done()
	b.out.Roles = append(b.out.Roles, o)
}
