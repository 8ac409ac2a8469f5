//! Users and groups of a container, from its own tables (`passwd(5)`, `group(5)`).

use crate::error::Error;

/// The account of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// The home directory.
    pub home: String,
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// Resolves `USER[:GROUP]` with the tables of the container; the default is root.
///
/// # Errors
///
/// If a name is not in the tables.
pub fn resolve(asked: &str, passwd: &str, group: &str) -> Result<Account, Error> {
    let (user, named_group) =
        asked.split_once(':').map_or((asked, ""), |(user, group)| (user, group));
    let user = if user.is_empty() { "0" } else { user };
    let unknown = |table, name: &str| Error::UnknownUser {
        asked: asked.to_owned(),
        table,
        name: name.to_owned(),
    };
    // name:password:uid:gid:comment:home:shell; a name may look like a number.
    let entries = || passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let of_user =
        |field: usize| entries().find(|entry| entry.len() >= 4 && entry[field].trim() == user);
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let entry = of_user(0).or_else(|| number(user).and_then(|_| of_user(2)));
    let uid = entry.as_ref().map_or_else(|| number(user), |entry| number(entry[2]));
    let uid = uid.ok_or_else(|| unknown(PASSWD, user))?;
    let own_gid = entry.as_ref().and_then(|entry| number(entry[3])).unwrap_or(0);
    let home = entry.as_ref().and_then(|entry| entry.get(5)).filter(|home| !home.is_empty());
    let home = home.map_or("/", |home| *home).to_owned();

    // name:password:gid:members
    let groups = || {
        let entries = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
        entries.filter(|entry| entry.len() >= 3)
    };
    if !named_group.is_empty() {
        let named = groups().find(|entry| entry[0].trim() == named_group);
        let gid = named.map_or_else(|| number(named_group), |entry| number(entry[2]));
        let gid = gid.ok_or_else(|| unknown(GROUP, named_group))?;
        return Ok(Account { uid, gid, groups: Vec::new(), home });
    }
    let name = entry.as_ref().map(|entry| entry[0].trim());
    let is_member = |entry: &Vec<&str>| {
        entry.get(3).is_some_and(|members| members.split(',').any(|one| Some(one.trim()) == name))
    };
    let groups = groups().filter(is_member).filter_map(|entry| number(entry[2]));
    Ok(Account { uid, gid: own_gid, groups: groups.filter(|gid| *gid != own_gid).collect(), home })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1001::/home/web:/bin/sh\n\
                          broken\n77:x:5:6::/odd:\nnohome:x:8:9::\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:web,other\nweb:x:1001:web\nalso:x:60:other, web\n";

    fn account(asked: &str) -> (u32, u32, Vec<u32>, String) {
        let Account { uid, gid, groups, home } = resolve(asked, PASSWD, GROUP).unwrap();
        (uid, gid, groups, home)
    }

    #[test]
    fn names_and_numbers_are_resolved() {
        let home = |home: &str| home.to_owned();
        assert_eq!(account(""), (0, 0, vec![], home("/root")));
        assert_eq!(account("web"), (1000, 1001, vec![50, 60], home("/home/web")));
        assert_eq!(account("1000"), (1000, 1001, vec![50, 60], home("/home/web")));
        assert_eq!(account("web:staff"), (1000, 50, vec![], home("/home/web")));
        assert_eq!(account("web:7"), (1000, 7, vec![], home("/home/web")));
        assert_eq!(account("4711"), (4711, 0, vec![], home("/")));
        assert_eq!(account("4711:4712"), (4711, 4712, vec![], home("/")));
        // A name that looks like a number is a name.
        assert_eq!(account("77"), (5, 6, vec![], home("/odd")));
        assert_eq!(account("nohome").3, "/");
    }

    #[test]
    fn unknown_names_are_refused() {
        for asked in ["nobody", "web:nobody", "-1", "4294967296", "broken"] {
            assert!(resolve(asked, PASSWD, GROUP).is_err(), "{asked}");
        }
        assert_eq!(resolve("0", "", "").unwrap().home, "/");
    }
}
